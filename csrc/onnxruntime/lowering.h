// Nodes that are run as several others: quantised operators as conversions around operators of floats, recurrent
// networks as a preparation of their weights, which is done once where those are constant, and the sequence.
#pragma once

#include "onnxruntime/node.h"

namespace ocl::ort {

// The domain of operators that only this library makes; rows of the table with their names are no operators of ONNX.
inline constexpr const char* own_domain = "ocl";

// The nodes, in order, that run in place of this one: itself where nothing else is said. Errors: InvalidArgument with
// the reason where the node is of such an operator but not of a kind that can be run.
std::vector<Node> lower(const Node& node);

}  // namespace ocl::ort
