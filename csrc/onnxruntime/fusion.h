// Nodes that are run as one: the library has kernels for a product with bias and activation, for a sum or a batch
// normalisation with ReLU, and for attention without the matrix of scores.
#pragma once

#include "onnxruntime/lowering.h"

namespace ocl::ort {

// Replaces nodes in topological order. `kept`: names of values that must go on to exist.
void fuse(std::vector<Node>& nodes, const std::vector<std::string>& kept);

}  // namespace ocl::ort
