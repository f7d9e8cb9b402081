// Nodes that are run as one: the library has kernels for a product with bias and activation, for a sum or a batch
// normalisation with ReLU, and for attention without the matrix of scores.
#pragma once

#include "onnxruntime/node.h"

namespace ocl::ort {

// The domain of the nodes that fuse() makes; rows of the table with these names are no operators of ONNX.
inline constexpr const char* fused_domain = "ocl";

// Replaces nodes in topological order. `kept`: names of values that must go on to exist.
void fuse(std::vector<Node>& nodes, const std::vector<std::string>& kept);

}  // namespace ocl::ort
