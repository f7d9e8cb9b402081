// Arithmetic on the host's small tensors: what shapes are computed from.
#pragma once

#include "onnxruntime/value.h"

#include <functional>
#include <optional>

namespace ocl::ort {

// The operator (ONNX's name) on two broadcast tensors of one type; nothing for one that the host does not know, for
// sizes that do not broadcast and for results above host_limit.
std::optional<HostTensor> host_binary(const std::string& op, const HostTensor& a, const HostTensor& b);
// The operator on each element; nothing for one that the host does not know.
std::optional<HostTensor> host_unary(const std::string& op, const HostTensor& x);
// condition ? a : b
std::optional<HostTensor> host_where(const HostTensor& condition, const HostTensor& a, const HostTensor& b);

// y[i] = x[source(i)] for row-major positions i of y.
HostTensor host_pick(const HostTensor& x, Sizes sizes, const std::function<int64_t(int64_t)>& source);
// The strided view of x's row-major elements: y's position i is offset + sum of index * stride.
HostTensor host_strided(const HostTensor& x, const Sizes& sizes, const Sizes& strides, int64_t offset);

}  // namespace ocl::ort
