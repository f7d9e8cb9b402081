// The pieces of batch normalization over several devices (torch.nn.SyncBatchNorm), made of other operators. Statistics
// are float32 for half types. Formulas: x^ = (x - mean) invstd; dx = (dy - sum(dy) / n - x^ invstd sum(dy (x - mean)) /
// n) weight invstd.
#include "torch/aten/common.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>

namespace ocl::aten {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;

at::ScalarType statistics_type(const Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

bool given(const OptionalTensor& t) { return t && t->defined(); }

// All dimensions but the channels.
at::DimVector reduced_dims(const Tensor& input) {
  TORCH_CHECK(input.dim() >= 2, "batch norm: expected an input of at least 2 dimensions, got ", input.dim());
  at::DimVector dims{0};
  for (int64_t d = 2; d < input.dim(); ++d) dims.push_back(d);
  return dims;
}

// A vector of channels that broadcasts over the input.
Tensor over(const Tensor& vector, const Tensor& input) {
  TORCH_CHECK(vector.numel() == input.size(1), "batch norm: expected ", input.size(1), " channels, got ",
              vector.numel());
  at::DimVector sizes(input.dim(), 1);
  sizes[1] = input.size(1);
  return vector.to(statistics_type(input)).reshape(sizes);
}

Tensor wide(const Tensor& input) { return input.to(statistics_type(input)); }

Pair batch_norm_stats(const Tensor& input, double eps) {
  const auto [variance, mean] =
      at::var_mean(wide(input), at::OptionalIntArrayRef(reduced_dims(input)), std::optional<at::Scalar>(0), false);
  return {mean, at::rsqrt(variance.add(eps))};
}

Tensor batch_norm_elemt(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                        const Tensor& mean, const Tensor& invstd, double) {
  Tensor factor = over(invstd, input);
  if (given(weight)) factor = factor * over(*weight, input);
  Tensor result = (wide(input) - over(mean, input)).mul_(factor);
  if (given(bias)) result.add_(over(*bias, input));
  return result.to(input.scalar_type());
}

Tensor& batch_norm_elemt_out(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                             const Tensor& mean, const Tensor& invstd, double eps, Tensor& out) {
  at::native::resize_output(out, input.sizes());
  return out.copy_(ocl::aten::batch_norm_elemt(input, weight, bias, mean, invstd, eps));
}

// Joins the statistics of parts with counts[i] elements each: mean, invstd are [parts, channels].
Pair gather_stats_with_counts(const Tensor&, const Tensor& mean, const Tensor& invstd,
                              const OptionalTensor& running_mean, const OptionalTensor& running_var, double momentum,
                              double eps, const Tensor& counts) {
  const Tensor weights = counts.to(mean.scalar_type()).reshape({-1, 1}), total = weights.sum();
  const Tensor joint = (mean * weights).sum(0).div_(total);
  const Tensor part = invstd.pow(-2).sub_(eps), apart = mean - joint;
  const Tensor squares = ((part + apart * apart) * weights).sum(0);
  if (given(running_mean)) running_mean->mul_(1 - momentum).add_(joint.to(running_mean->scalar_type()), momentum);
  if (given(running_var))
    running_var->mul_(1 - momentum).add_((squares / (total - 1)).to(running_var->scalar_type()), momentum);
  return {joint, at::rsqrt((squares / total).add_(eps))};
}

Pair gather_stats(const Tensor& input, const Tensor& mean, const Tensor& invstd, const OptionalTensor& running_mean,
                  const OptionalTensor& running_var, double momentum, double eps, int64_t count) {
  return gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps,
                                  at::full({mean.size(0)}, count, mean.options()));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward_reduce(const Tensor& grad, const Tensor& input, const Tensor& mean,
                                                           const Tensor& invstd, const OptionalTensor& weight,
                                                           bool input_wanted, bool weight_wanted, bool bias_wanted) {
  const auto dims = reduced_dims(input);
  const Tensor g = wide(grad), sum = g.sum(dims), product = ((wide(input) - over(mean, input)).mul_(g)).sum(dims);
  const at::ScalarType type = given(weight) ? weight->scalar_type() : sum.scalar_type();
  return {input_wanted ? sum : Tensor(), input_wanted ? product : Tensor(),
          weight_wanted ? (product * invstd).to(type) : Tensor(), bias_wanted ? sum.to(type) : Tensor()};
}

Tensor backward_elemt(const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                      const OptionalTensor& weight, const Tensor& sum, const Tensor& product, const Tensor& count) {
  const Tensor total = count.sum().to(statistics_type(input)), scale = over(invstd, input);
  const Tensor slope = over(product, input) * scale * scale / total;
  Tensor result = wide(grad) - over(sum, input) / total - (wide(input) - over(mean, input)).mul_(slope);
  result.mul_(given(weight) ? scale * over(*weight, input) : scale);
  return result.to(input.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("batch_norm_stats", batch_norm_stats);
  m.impl("batch_norm_elemt", batch_norm_elemt);
  m.impl("batch_norm_elemt.out", batch_norm_elemt_out);
  m.impl("batch_norm_gather_stats", gather_stats);
  m.impl("batch_norm_gather_stats_with_counts", gather_stats_with_counts);
  m.impl("batch_norm_backward_reduce", backward_reduce);
  m.impl("batch_norm_backward_elemt", backward_elemt);
}

}  // namespace ocl::aten
