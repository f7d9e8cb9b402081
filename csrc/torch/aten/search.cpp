// Searches in sorted sequences and histograms.
#include "ops/search/search.h"

#include "torch/aten/common.h"
#include "ops/histogram/histogram.h"

#include <ATen/native/BucketizationUtils.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isin_meta.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>

namespace ocl::aten {

namespace {

using at::Tensor;

Tensor& searchsorted_out(const Tensor& boundaries, const Tensor& self, bool out_int32, bool right,
                         std::optional<std::string_view> side, const std::optional<Tensor>& sorter, Tensor& out) {
  const Tensor order = sorter.value_or(Tensor());
  at::native::searchsorted_pre_check(boundaries, self, out, out_int32, right, side, order);
  at::native::resize_output(out, self.sizes());
  if (self.numel() == 0) return out;
  Tensor values = self, sequence = boundaries, dense_order = order;
  at::native::searchsorted_maybe_trim_input_tensors(values, sequence, dense_order, self, boundaries, order);
  const Tensor result = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  const c10::OptionalDeviceGuard guard(out.device());
  ops::search_sorted(queue_for(out), view(sequence), view(values),
                     order.defined() ? view(dense_order) : ops::TensorView{}, right || (side && *side == "right"),
                     view(result));
  if (!result.is_same(out)) out.copy_(result);
  return out;
}

Tensor search_tensor(const Tensor& boundaries, const Tensor& self, bool out_int32, bool right,
                     std::optional<std::string_view> side, const std::optional<Tensor>& sorter) {
  Tensor out = at::empty({0}, self.options().dtype(out_int32 ? at::kInt : at::kLong));
  return searchsorted_out(boundaries, self, out_int32, right, side, sorter, out);
}

Tensor scalar_on(const Tensor& like, const at::Scalar& value) {
  return at::native::searchsorted_scalar_tensor(value, like.device());
}

Tensor& searchsorted_scalar_out(const Tensor& boundaries, const at::Scalar& self, bool out_int32, bool right,
                                std::optional<std::string_view> side, const std::optional<Tensor>& sorter,
                                Tensor& out) {
  return searchsorted_out(boundaries, scalar_on(boundaries, self), out_int32, right, side, sorter, out);
}

Tensor search_scalar(const Tensor& boundaries, const at::Scalar& self, bool out_int32, bool right,
                     std::optional<std::string_view> side, const std::optional<Tensor>& sorter) {
  return search_tensor(boundaries, scalar_on(boundaries, self), out_int32, right, side, sorter);
}

Tensor& bucketize_out(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right, Tensor& out) {
  TORCH_CHECK(boundaries.dim() == 1, "bucketize(): boundaries tensor must be 1 dimension, but got dim(",
              boundaries.dim(), ")");
  return searchsorted_out(boundaries, self, out_int32, right, std::nullopt, std::nullopt, out);
}

Tensor bucketize_tensor(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right) {
  Tensor out = at::empty({0}, self.options().dtype(out_int32 ? at::kInt : at::kLong));
  return bucketize_out(self, boundaries, out_int32, right, out);
}

Tensor bucketize_scalar(const at::Scalar& self, const Tensor& boundaries, bool out_int32, bool right) {
  return bucketize_tensor(scalar_on(boundaries, self), boundaries, out_int32, right);
}

// ---- isin

void run_isin(const Tensor& elements, const Tensor& tests, bool invert, const Tensor& out) {
  if (out.numel() == 0) return;
  if (tests.numel() == 0) {
    out.fill_(invert);
    return;
  }
  const at::ScalarType common = at::native::result_type({elements, tests});
  const Tensor values = elements.to(common).contiguous();
  const Tensor sorted = std::get<0>(at::sort(tests.to(common).reshape({-1})));
  const Tensor result = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  const c10::OptionalDeviceGuard guard(out.device());
  ops::is_in_sorted(queue_for(out), view(values), view(sorted), invert, view(result));
  if (!result.is_same(out)) out.copy_(result);
}

Tensor& isin_out(const Tensor& elements, const Tensor& tests, bool assume_unique, bool invert, Tensor& out) {
  Out<at::meta::structured_isin_Tensor_Tensor, 1> op(out);
  op.meta(elements, tests, assume_unique, invert);
  run_isin(elements, tests, invert, op.output(0));
  op.finish();
  return out;
}

Tensor& isin_tensor_scalar_out(const Tensor& elements, const at::Scalar& test, bool assume_unique, bool invert,
                               Tensor& out) {
  Out<at::meta::structured_isin_Tensor_Scalar, 1> op(out);
  op.meta(elements, test, assume_unique, invert);
  run_isin(elements, scalar_on(elements, test), invert, op.output(0));
  op.finish();
  return out;
}

Tensor& isin_scalar_tensor_out(const at::Scalar& element, const Tensor& tests, bool assume_unique, bool invert,
                               Tensor& out) {
  return ocl::aten::isin_out(scalar_on(tests, element), tests, assume_unique, invert, out);
}

// ---- histograms

Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights_opt, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  const Tensor weights = weights_opt.value_or(Tensor());
  if (self.dim() == 1 && self.numel() == 0) return at::zeros({minlength}, self.options().dtype(at::kLong));
  TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
  if (!at::isIntegralType(self.scalar_type(), false)) not_implemented_for("bincount", self.scalar_type());
  auto [smallest, largest] = at::aminmax(self);
  TORCH_CHECK(smallest.item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(!weights.defined() || (weights.dim() == 1 && weights.size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  const int64_t bins = std::max(largest.item<int64_t>() + 1, minlength);
  const bool weighted = weights.defined();
  const at::ScalarType type = !weighted ? at::kLong : weights.scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  Tensor out = at::empty({bins}, self.options().dtype(type));
  const Tensor x = self.contiguous(), w = weighted ? weights.to(type).contiguous() : weights;
  const c10::OptionalDeviceGuard guard(self.device());
  ops::bin_count(queue_for(self), view(x), weighted ? view(w) : ops::TensorView{}, view(out));
  return out;
}

Tensor& histc_out(const Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max, Tensor& out) {
  TORCH_CHECK(bins > 0, "bins must be > 0");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "torch.histogram: input tensor and hist tensor should have the same dtype, but got input ",
              self.scalar_type(), " and hist ", out.scalar_type());
  // Whole numbers too, as on CUDA: code that treats every device but the CPU as CUDA counts expert indices with it.
  if (!self.is_floating_point() && !at::isIntegralType(self.scalar_type(), /*includeBool=*/false))
    not_implemented_for("histogram_cpu", self.scalar_type());
  double low = min.toDouble(), high = max.toDouble();
  TORCH_CHECK(low <= high, "torch.histc: max must be larger than min");
  if (low == high && self.numel() > 0) {
    auto [smallest, largest] = at::aminmax(self);
    low = smallest.item<double>();
    high = largest.item<double>();
  }
  if (low == high) low -= 1, high += 1;
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "torch.histc: range of [", low, ", ", high, "] is not finite");
  at::native::resize_output(out, {bins});
  const Tensor x = self.contiguous();
  const Tensor counts = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  const c10::OptionalDeviceGuard guard(self.device());
  ops::histogram(queue_for(self), view(x), low, high, view(counts));
  if (!counts.is_same(out)) out.copy_(counts);
  return out;
}

Tensor histc(const Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  Tensor out = at::empty({0}, self.options());
  return histc_out(self, bins, min, max, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("searchsorted.Tensor", search_tensor);
  m.impl("searchsorted.Tensor_out", searchsorted_out);
  m.impl("searchsorted.Scalar", search_scalar);
  m.impl("searchsorted.Scalar_out", searchsorted_scalar_out);
  m.impl("bucketize.Tensor", bucketize_tensor);
  m.impl("bucketize.Tensor_out", bucketize_out);
  m.impl("bucketize.Scalar", bucketize_scalar);
  m.impl("isin.Tensor_Tensor_out", isin_out);
  m.impl("isin.Tensor_Scalar_out", isin_tensor_scalar_out);
  m.impl("isin.Scalar_Tensor_out", isin_scalar_tensor_out);
  m.impl("bincount", bincount);
  m.impl("histc", histc);
  m.impl("histc.out", histc_out);
}

}  // namespace ocl::aten
