// torch.nn.utils.weight_norm: w = v * g / |v|, norms over all dimensions but one. Composed: the weights of a layer are
// small next to its work.
#include "torch/aten/common.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/norm_except_dim.h>

namespace ocl::aten {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor> weight_norm(const Tensor& v, const Tensor& g, int64_t dim) {
  TORCH_CHECK(v.device() == g.device(), "weight_norm: expected v_in and g_in to be on the same device, but v_in is on ",
              v.device(), " and g_in is on ", g.device());
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "fused kernels can only be applied for first or last dim");
  const Tensor norms = at::norm_except_dim(v, 2, dim);
  return {v * (g / norms), norms};
}

std::tuple<Tensor, Tensor> weight_norm_backward(const Tensor& grad, const Tensor& v, const Tensor& g,
                                                const Tensor& norms, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "fused kernels can only be applied for first or last dim");
  at::DimVector others;
  for (int64_t d = 0; d < v.dim(); ++d)
    if (d != dim) others.push_back(d);
  const Tensor along = (grad * v).sum(others, /*keepdim=*/true).view(norms.sizes());  // of the gradient, along v
  return {(grad - v * (along / (norms * norms))) * (g / norms), along / norms};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_weight_norm_interface", weight_norm);
  m.impl("_weight_norm_interface_backward", weight_norm_backward);
}

}  // namespace
}  // namespace ocl::aten
