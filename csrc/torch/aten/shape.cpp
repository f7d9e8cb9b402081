// Concatenation, triangles, progressions, windows and other operators that lay elements out anew.
#include "ops/shape/shape.h"

#include "torch/aten/common.h"
#include "torch/aten/many_dims.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/TensorShape.h>
#include <ATen/native/im2col_shape_check.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/triu_meta.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

namespace ocl::aten {
namespace {

// Runs `body` on a contiguous tensor in place of `out` and copies back when that is another one.
template <class Body>
at::Tensor& into_contiguous(at::Tensor& out, Body&& body) {
  const auto dense = contiguous(out);
  body(*dense);
  if (!dense->is_same(out)) out.copy_(*dense);
  return out;
}

// ---- cat

struct Cat : Out<at::meta::structured_cat, 1> {
  using Out::Out;
};
at::Tensor& cat_out(const at::ITensorListRef& tensors, int64_t dim, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(out));
  Cat op(out);
  const auto precomputed = op.meta(tensors, dim);
  const at::Tensor& result = op.output(0);
  dim = precomputed.dim;
  if (result.numel() == 0) return out;
  std::vector<ops::TensorView> inputs;
  std::vector<at::Tensor> converted;
  for (const at::Tensor& tensor : tensors) {
    if (at::native::cat_should_skip_tensor(tensor)) continue;
    TORCH_CHECK(tensor.device() == result.device(), "Expected all tensors to be on the same device, but got ",
                tensor.device(), " and ", result.device());
    converted.push_back(tensor.to(result.scalar_type()));
    if (too_many_dims(result)) converted.back() = around(converted.back(), dim);
    inputs.push_back(moved(converted.back()));
  }
  if (too_many_dims(result))
    change_around(result, dim,
                  [&](const at::Tensor& three) { ops::concatenate(queue_for(result), moved(three), inputs, 1); });
  else
    ops::concatenate(queue_for(result), moved(result), inputs, static_cast<int>(dim));
  op.finish();
  return out;
}

// ---- tril, triu

struct Tril : Out<at::meta::structured_tril, 1> {
  using Out::Out;
};
struct Triu : Out<at::meta::structured_triu, 1> {
  using Out::Out;
};
template <class Op>
at::Tensor& triangle_out(const at::Tensor& self, int64_t diagonal, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Op op(out);
  op.meta(self, diagonal);
  const at::Tensor& result = op.output(0);
  at::assert_no_partial_overlap(result, self);
  const auto planes = [](const at::Tensor& t) { return t.contiguous().view({-1, t.size(-2), t.size(-1)}); };
  if (result.numel() > 0 && too_many_dims(result)) {
    const at::Tensor all = planes(result);
    ops::triangle(queue_for(result), moved(all), moved(planes(self)), diagonal, std::is_same_v<Op, Triu>);
    if (!result.is_contiguous()) result.copy_(all.view(result.sizes()));
  } else if (result.numel() > 0) {
    ops::triangle(queue_for(result), moved(result), moved(self), diagonal, std::is_same_v<Op, Triu>);
  }
  op.finish();
  return out;
}

template <bool upper>
at::Tensor triangle_indices(int64_t row, int64_t column, int64_t offset, std::optional<at::ScalarType> dtype,
                            std::optional<at::Layout> layout, std::optional<at::Device> device,
                            std::optional<bool> pin_memory) {
  if (!dtype.has_value()) dtype = at::kLong;
  at::native::check_args(row, column, layout);
  const c10::OptionalDeviceGuard guard(device);
  const int64_t size = upper ? row * column - at::native::get_tril_size(row, column, offset - 1)
                             : at::native::get_tril_size(row, column, offset);
  at::Tensor result =
      at::empty({2, size}, at::TensorOptions().dtype(dtype).layout(layout).device(device).pinned_memory(pin_memory));
  ops::triangle_indices(queue_for(result), view(result), row, column, offset, upper);
  return result;
}

// ---- progressions

int64_t arange_size(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::ScalarType type) {
  return type == at::kLong ? at::native::compute_arange_size<int64_t>(start, end, step)
                           : at::native::compute_arange_size<double>(start, end, step);
}

// A number as arithmetic in the dtype sees it, so that results agree with the CPU's.
double rounded(const at::Scalar& value, at::ScalarType type) {
  if (at::isIntegralType(type, true)) return static_cast<double>(value.to<int64_t>());
  return type == at::kFloat ? value.to<float>() : value.to<double>();
}

void resize_for(at::Tensor& out, int64_t size) {
  if (out.numel() == size) return;
  if (out.numel() > 0) {
    TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ", out.numel(),
               " which does not match the computed number of elements ", size,
               ". Note that this may occur as a result of rounding error. The out tensor will be resized to a tensor "
               "of shape (",
               size, ",).");
  }
  out.resize_({size});
}

at::Tensor& run_progression(at::Tensor& out, ops::ProgressionKind kind, const ops::Progression& parameters) {
  if (out.numel() == 0) return out;
  return into_contiguous(
      out, [&](const at::Tensor& dense) { ops::progression(queue_for(dense), view(dense), kind, parameters); });
}

ops::Progression steps_of(const at::Scalar& start, const at::Scalar& step, at::ScalarType type) {
  ops::Progression parameters;
  if (at::isIntegralType(type, true)) {
    parameters.integer_start = start.to<int64_t>();
    parameters.integer_step = step.to<int64_t>();
  } else {
    parameters.start = start.to<double>();
    parameters.step = step.to<double>();
  }
  return parameters;
}

at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(out));
  if (out.is_complex()) not_implemented_for("arange", out.scalar_type());
  resize_for(out, arange_size(start, end, step, out.scalar_type()));
  return run_progression(out, ops::ProgressionKind::arange, steps_of(start, step, out.scalar_type()));
}

at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(out));
  at::native::arange_check_bounds(start, end, step);
  const int64_t size = out.scalar_type() == at::kLong
                           ? (end.to<int64_t>() - start.to<int64_t>()) / step.to<int64_t>() + 1
                           : static_cast<int64_t>((end.to<double>() - start.to<double>()) / step.to<double>() + 1);
  if (out.numel() != size) out.resize_({size});
  return run_progression(out, ops::ProgressionKind::arange, steps_of(start, step, out.scalar_type()));
}

ops::Progression line_of(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::ScalarType type) {
  ops::Progression parameters;
  parameters.start = rounded(start, type);
  parameters.end = steps == 1 ? parameters.start : rounded(end, type);
  parameters.step = steps > 1 ? (parameters.end - parameters.start) / static_cast<double>(steps - 1) : 0;
  return parameters;
}

at::Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(out));
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.numel() != steps) out.resize_({steps});
  if (out.is_complex()) {
    const auto from = start.toComplexDouble(), to = end.toComplexDouble();
    const at::Tensor parts = at::view_as_real(out);
    at::Tensor real = parts.select(-1, 0), imaginary = parts.select(-1, 1);
    linspace_out(from.real(), to.real(), steps, real);
    linspace_out(from.imag(), to.imag(), steps, imaginary);
    return out;
  }
  return run_progression(out, ops::ProgressionKind::linspace, line_of(start, end, steps, out.scalar_type()));
}

at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(out));
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.numel() != steps) out.resize_({steps});
  if (out.is_complex()) return at::pow_out(out, at::Scalar(base), linspace_out(start, end, steps, out));
  ops::Progression parameters = line_of(start, end, steps, out.scalar_type());
  parameters.base = base;
  return run_progression(out, ops::ProgressionKind::logspace, parameters);
}

at::Tensor& eye_m_out(int64_t n, int64_t m, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(out));
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  out.resize_({n, m});
  if (only_moved(out.scalar_type())) {
    out.zero_().diagonal().fill_(1);
    return out;
  }
  if (out.numel() > 0) ops::eye(queue_for(out), view(out));
  return out;
}
at::Tensor& eye_out(int64_t n, at::Tensor& out) { return eye_m_out(n, n, out); }

// ---- windows

ops::Windows windows_of(at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                        at::IntArrayRef stride, int64_t height, int64_t width) {
  ops::Windows windows;
  windows.image = {height, width};
  for (size_t d = 0; d < 2; ++d) {
    windows.kernel[d] = kernel[d];
    windows.dilation[d] = dilation[d];
    windows.padding[d] = padding[d];
    windows.stride[d] = stride[d];
    windows.count[d] = (windows.image[d] + 2 * padding[d] - (dilation[d] * (kernel[d] - 1) + 1)) / stride[d] + 1;
  }
  return windows;
}

void check_windows(at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride) {
  TORCH_CHECK(kernel.size() == 2, "It is expected kernel_size equals to 2, but got size ", kernel.size());
  TORCH_CHECK(dilation.size() == 2, "It is expected dilation equals to 2, but got size ", dilation.size());
  TORCH_CHECK(padding.size() == 2, "It is expected padding equals to 2, but got size ", padding.size());
  TORCH_CHECK(stride.size() == 2, "It is expected stride equals to 2, but got size ", stride.size());
}

at::Tensor& im2col_out(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation,
                       at::IntArrayRef padding, at::IntArrayRef stride, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  check_windows(kernel, dilation, padding, stride);
  at::native::im2col_shape_check(self, at::Tensor(), kernel[0], kernel[1], dilation[0], dilation[1], padding[0],
                                 padding[1], stride[0], stride[1]);
  const bool batched = self.dim() == 4;
  const at::Tensor image = (batched ? self : self.unsqueeze(0)).contiguous();
  const ops::Windows windows = windows_of(kernel, dilation, padding, stride, image.size(2), image.size(3));
  const int64_t taps = kernel[0] * kernel[1], count = windows.count[0] * windows.count[1],
                rows = image.size(0) * image.size(1);
  at::native::resize_output(out, batched ? at::DimVector{image.size(0), image.size(1) * taps, count}
                                         : at::DimVector{image.size(1) * taps, count});
  return into_contiguous(
      out, [&](const at::Tensor& dense) { ops::im2col(queue_for(self), view(dense), view(image), windows, rows); });
}
at::Tensor im2col(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                  at::IntArrayRef stride) {
  at::Tensor out = at::empty({0}, self.options());
  return im2col_out(self, kernel, dilation, padding, stride, out);
}

at::Tensor& col2im_out(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel,
                       at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  TORCH_CHECK(output_size.size() == 2, "It is expected output_size equals to 2, but got size ", output_size.size());
  check_windows(kernel, dilation, padding, stride);
  at::native::col2im_shape_check(self, at::Tensor(), output_size[0], output_size[1], kernel[0], kernel[1], dilation[0],
                                 dilation[1], padding[0], padding[1], stride[0], stride[1]);
  const bool batched = self.dim() == 3;
  const at::Tensor columns = (batched ? self : self.unsqueeze(0)).contiguous();
  const ops::Windows windows = windows_of(kernel, dilation, padding, stride, output_size[0], output_size[1]);
  const int64_t channels = columns.size(1) / (kernel[0] * kernel[1]), rows = columns.size(0) * channels;
  at::native::resize_output(out, batched ? at::DimVector{columns.size(0), channels, output_size[0], output_size[1]}
                                         : at::DimVector{channels, output_size[0], output_size[1]});
  return into_contiguous(
      out, [&](const at::Tensor& dense) { ops::col2im(queue_for(self), view(dense), view(columns), windows, rows); });
}
at::Tensor col2im(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel, at::IntArrayRef dilation,
                  at::IntArrayRef padding, at::IntArrayRef stride) {
  at::Tensor out = at::empty({0}, self.options());
  return col2im_out(self, output_size, kernel, dilation, padding, stride, out);
}

at::Tensor unfold_backward(const at::Tensor& grad, at::IntArrayRef sizes, int64_t dim, int64_t size, int64_t step) {
  const c10::OptionalDeviceGuard guard(at::device_of(grad));
  if (sizes.empty()) {  // unfold of a scalar: one window of size 0 or 1
    return size == 0 ? at::zeros(sizes, grad.options()) : grad.reshape(sizes).clone();
  }
  at::Tensor result = at::empty(sizes, grad.options());
  if (grad.numel() == 0) return result.zero_();
  // Windows that do not overlap: the CPU copies into them, which takes all that can be broadcast and words the errors.
  if (step >= size) {
    at::Tensor windows = result.unfold(dim, size, step);
    if (windows.sizes() != grad.sizes()) {
      result.zero_();
      windows.copy_(grad);
      return result;
    }
  }
  ops::unfold_backward(queue_for(grad), view(result), view(grad),
                       static_cast<int>(at::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size()))), size, step);
  return result;
}

at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<int64_t> output_size) {
  const c10::OptionalDeviceGuard guard(at::device_of(repeats));
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.size(0) == 0) return at::empty_like(repeats, at::MemoryFormat::Contiguous);
  const at::Tensor cumulative = repeats.cumsum(0, repeats.scalar_type());
  int64_t total = 0;
  if (output_size.has_value()) {
    total = *output_size;
  } else {
    total = cumulative[-1].item<int64_t>();
    TORCH_CHECK(repeats.ge(0).all().item().toBool(), "repeats can not be negative");
  }
  at::Tensor result = at::empty({total}, repeats.options());
  if (total > 0) ops::repeat_indices(queue_for(repeats), view(result), view(cumulative));
  return result;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cat.out", cat_out);
  m.impl("tril.out", triangle_out<Tril>);
  m.impl("triu.out", triangle_out<Triu>);
  m.impl("tril_indices", triangle_indices<false>);
  m.impl("triu_indices", triangle_indices<true>);
  m.impl("arange.start_out", arange_out);
  m.impl("range.out", range_out);
  m.impl("linspace.out", linspace_out);
  m.impl("logspace.out", logspace_out);
  m.impl("eye.out", eye_out);
  m.impl("eye.m_out", eye_m_out);
  m.impl("im2col", im2col);
  m.impl("im2col.out", im2col_out);
  m.impl("col2im", col2im);
  m.impl("col2im.out", col2im_out);
  m.impl("unfold_backward", unfold_backward);
  m.impl("repeat_interleave.Tensor", repeat_interleave);
}

}  // namespace
}  // namespace ocl::aten
