// Max, average and adaptive pooling in 2 and 3 dimensions (1 dimension arrives as 2).
#include "torch/aten/dense_output.h"
#include "torch/aten/on_cpu.h"
#include "ops/pool/pool.h"

#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/adaptive_max_pool2d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool2d_meta.h>
#include <ATen/ops/adaptive_max_pool3d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool3d_meta.h>
#include <ATen/ops/avg_pool2d_backward_meta.h>
#include <ATen/ops/avg_pool2d_meta.h>
#include <ATen/ops/avg_pool2d_ops.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_meta.h>
#include <ATen/ops/avg_pool3d_ops.h>
#include <ATen/ops/max_pool2d_with_indices_backward_meta.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>

namespace ocl::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;

// Spatial values of an argument of 1 or `spatial` elements as (D, H, W).
std::array<int64_t, 3> triple(IntArrayRef values, int spatial, int64_t leading) {
  std::array<int64_t, 3> result{leading, leading, leading};
  for (int d = 0; d < spatial; ++d) result[3 - spatial + d] = values.size() == 1 ? values[0] : values[d];
  return result;
}

at::MemoryFormat format_of(const Tensor& x, int spatial) {
  return x.dim() == spatial + 2 ? x.suggest_memory_format() : at::MemoryFormat::Contiguous;
}

// Shapes; windows are set by the caller.
ops::PoolProblem make_problem(ops::PoolKind kind, const Tensor& input, const Tensor& output, int spatial,
                              at::MemoryFormat format) {
  ops::PoolProblem p;
  p.kind = kind;
  p.dtype = dtype_of(input.scalar_type());
  p.channels_last = format != at::MemoryFormat::Contiguous;
  p.batch = input.dim() == spatial + 2 ? input.size(0) : 1;
  p.channels = input.size(-spatial - 1);
  p.input = triple(input.sizes().slice(input.dim() - spatial), spatial, 1);
  p.output = triple(output.sizes().slice(output.dim() - spatial), spatial, 1);
  return p;
}

struct Windows {
  IntArrayRef kernel, stride, padding, dilation;
  bool count_include_pad = true;
  int64_t divisor = 0;
};

void set_windows(ops::PoolProblem& p, const Windows& w, int spatial) {
  p.kernel = triple(w.kernel, spatial, 1);
  p.stride = w.stride.empty() ? p.kernel : triple(w.stride, spatial, 1);
  p.padding = triple(w.padding, spatial, 0);
  if (!w.dilation.empty()) p.dilation = triple(w.dilation, spatial, 1);
  p.count_include_pad = w.count_include_pad;
  p.divisor = w.divisor;
}

// One forward pass; without windows it is adaptive. `indices` is undefined for averages. Integers are pooled as
// doubles.
void run_forward(ops::PoolKind kind, const Tensor& self, int spatial, const Windows* windows, const Tensor& out,
                 const Tensor& indices) {
  if (out.numel() == 0) return;
  if (!self.is_floating_point()) {
    if (self.is_complex() || kind == ops::PoolKind::average)
      not_implemented_for(kind == ops::PoolKind::max ? "max_pool" : "avg_pool", self.scalar_type());
    const Tensor wide = empty_like_options(out.sizes(), out.options().dtype(at::kDouble));
    run_forward(kind, self.to(at::kDouble), spatial, windows, wide, indices);
    out.copy_(wide);
    return;
  }
  const at::MemoryFormat format = format_of(self, spatial);
  const Tensor x = self.contiguous(format);
  const DenseOutput y(out, format);
  const DenseOutput index(indices.defined() ? indices : out, format);
  ops::PoolProblem p = make_problem(kind, x, out, spatial, format);
  p.adaptive = !windows;
  if (windows) set_windows(p, *windows, spatial);
  ops::pool_forward(queue_for(x), p, address(x), y.data(), indices.defined() ? index.data() : nullptr);
  y.finish();
  if (indices.defined()) index.finish();
}

void run_backward(ops::PoolKind kind, const Tensor& grad, const Tensor& self, int spatial, const Windows* windows,
                  const Tensor& indices, const Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  if (grad.numel() == 0) {
    grad_input.zero_();
    return;
  }
  const at::MemoryFormat format = format_of(self, spatial);
  const Tensor g = grad.contiguous(format), index = indices.defined() ? indices.contiguous(format) : Tensor();
  const DenseOutput dx(grad_input, format);
  ops::PoolProblem p = make_problem(kind, self, grad, spatial, format);
  p.adaptive = !windows;
  if (windows) set_windows(p, *windows, spatial);
  ops::pool_backward(queue_for(self), p, address(g), address(index), dx.data());
  dx.finish();
}

// ---- max pooling
std::tuple<Tensor&, Tensor&> max_pool2d_with_indices_out(const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                                                         IntArrayRef padding, IntArrayRef dilation, bool ceil_mode,
                                                         Tensor& out, Tensor& indices) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<at::meta::structured_max_pool2d_with_indices, 2> op(out, indices);
  op.meta(self, kernel, stride, padding, dilation, ceil_mode);
  const Windows windows{kernel, stride, padding, dilation};
  run_forward(ops::PoolKind::max, self, 2, &windows, op.output(0), op.output(1));
  op.finish();
  return {out, indices};
}

Tensor& max_pool2d_with_indices_backward_out(const Tensor& grad, const Tensor& self, IntArrayRef kernel,
                                             IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                             bool ceil_mode, const Tensor& indices, Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<at::meta::structured_max_pool2d_with_indices_backward, 1> op(grad_input);
  op.meta(grad, self, kernel, stride, padding, dilation, ceil_mode, indices);
  const Windows windows{kernel, stride, padding, dilation};
  run_backward(ops::PoolKind::max, grad, self, 2, &windows, indices, op.output(0));
  op.finish();
  return grad_input;
}

// Output sizes of max_pool3d after PyTorch's checks.
std::vector<int64_t> max_pool3d_sizes(const Tensor& self, const Windows& w, bool ceil_mode) {
  TORCH_CHECK(w.kernel.size() == 1 || w.kernel.size() == 3,
              "max_pool3d: kernel_size must either be a single int, or a tuple of three ints");
  TORCH_CHECK(w.stride.empty() || w.stride.size() == 1 || w.stride.size() == 3,
              "max_pool3d: stride must either be omitted, a single int, or a tuple of three ints");
  TORCH_CHECK(w.padding.size() == 1 || w.padding.size() == 3,
              "max_pool3d: padding must either be a single int, or a tuple of three ints");
  TORCH_CHECK(w.dilation.size() == 1 || w.dilation.size() == 3,
              "max_pool3d: dilation must be either a single int, or a tuple of three ints");
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, "non-empty 4D or 5D (batch mode) tensor expected for input");
  ops::PoolProblem p;
  set_windows(p, w, 3);
  const auto in = self.sizes().slice(self.dim() - 3);
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end() - 3);
  std::array<int64_t, 3> o;
  for (int d = 0; d < 3; ++d)
    o[d] = at::native::pooling_output_shape<int64_t>(in[d], p.kernel[d], p.padding[d], p.stride[d], p.dilation[d],
                                                     ceil_mode);
  sizes.insert(sizes.end(), o.begin(), o.end());
  at::native::pool3d_shape_check(self, self.size(-4), p.kernel[0], p.kernel[1], p.kernel[2], p.stride[0], p.stride[1],
                                 p.stride[2], p.padding[0], p.padding[1], p.padding[2], p.dilation[0], p.dilation[1],
                                 p.dilation[2], in[0], in[1], in[2], o[0], o[1], o[2], "max_pool3d_with_indices");
  return sizes;
}

std::tuple<Tensor&, Tensor&> max_pool3d_with_indices_out(const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                                                         IntArrayRef padding, IntArrayRef dilation, bool ceil_mode,
                                                         Tensor& out, Tensor& indices) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const Windows windows{kernel, stride, padding, dilation};
  const auto sizes = max_pool3d_sizes(self, windows, ceil_mode);
  for (const Tensor* t : {&out, &indices}) at::native::resize_output(*t, sizes);
  run_forward(ops::PoolKind::max, self, 3, &windows, out, indices);
  return {out, indices};
}

std::tuple<Tensor, Tensor> max_pool3d_with_indices(const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                                                   IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  const auto sizes = max_pool3d_sizes(self, {kernel, stride, padding, dilation}, ceil_mode);
  const auto format = format_of(self, 3);
  Tensor out = empty_like_options(sizes, self.options(), format),
         indices = empty_like_options(sizes, self.options().dtype(at::kLong), format);
  max_pool3d_with_indices_out(self, kernel, stride, padding, dilation, ceil_mode, out, indices);
  return {out, indices};
}

Tensor& max_pool3d_with_indices_backward_out(const Tensor& grad, const Tensor& self, IntArrayRef kernel,
                                             IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                             bool ceil_mode, const Tensor& indices, Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const Windows windows{kernel, stride, padding, dilation};
  const auto sizes = max_pool3d_sizes(self, windows, ceil_mode);
  for (const Tensor* t : {&grad, &indices})
    TORCH_CHECK(t->sizes().equals(sizes), "max_pool3d_with_indices_backward: expected a gradient and indices of shape ",
                IntArrayRef(sizes), ", but got ", t->sizes());
  TORCH_CHECK(grad.scalar_type() == self.scalar_type(), "Expected dtype ", self.scalar_type(),
              " for `gradOutput` but got dtype ", grad.scalar_type());
  at::native::resize_output(grad_input, self.sizes());
  run_backward(ops::PoolKind::max, grad, self, 3, &windows, indices, grad_input);
  return grad_input;
}

Tensor max_pool3d_with_indices_backward(const Tensor& grad, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                                        IntArrayRef padding, IntArrayRef dilation, bool ceil_mode,
                                        const Tensor& indices) {
  Tensor grad_input = empty_like_options(self.sizes(), self.options(), format_of(self, 3));
  return max_pool3d_with_indices_backward_out(grad, self, kernel, stride, padding, dilation, ceil_mode, indices,
                                              grad_input);
}

// ---- average pooling
template <class Meta, int spatial>
Tensor& avg_pool_out(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                     bool count_include_pad, std::optional<int64_t> divisor_override, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  if (!self.is_floating_point()) {
    if constexpr (spatial == 2)
      return on_cpu<at::_ops::avg_pool2d_out>(self, kernel, stride, padding, ceil_mode, count_include_pad,
                                              divisor_override, out);
    else
      return on_cpu<at::_ops::avg_pool3d_out>(self, kernel, stride, padding, ceil_mode, count_include_pad,
                                              divisor_override, out);
  }
  Out<Meta, 1> op(out);
  op.meta(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override);
  const Windows windows{kernel, stride, padding, {}, count_include_pad, divisor_override.value_or(0)};
  run_forward(ops::PoolKind::average, self, spatial, &windows, op.output(0), Tensor());
  op.finish();
  return out;
}

template <class Meta, int spatial>
Tensor& avg_pool_backward_out(const Tensor& grad, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                              IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                              std::optional<int64_t> divisor_override, Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<Meta, 1> op(grad_input);
  op.meta(grad, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override);
  const Windows windows{kernel, stride, padding, {}, count_include_pad, divisor_override.value_or(0)};
  run_backward(ops::PoolKind::average, grad, self, spatial, &windows, Tensor(), op.output(0));
  op.finish();
  return grad_input;
}

// ---- adaptive pooling
template <class Meta, int spatial>
std::tuple<Tensor&, Tensor&> adaptive_max_pool_out(const Tensor& self, IntArrayRef output_size, Tensor& out,
                                                   Tensor& indices) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<Meta, 2> op(out, indices);
  op.meta(self, output_size);
  run_forward(ops::PoolKind::max, self, spatial, nullptr, op.output(0), op.output(1));
  op.finish();
  return {out, indices};
}

template <class Meta, int spatial>
Tensor& adaptive_max_pool_backward_out(const Tensor& grad, const Tensor& self, const Tensor& indices,
                                       Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<Meta, 1> op(grad_input);
  op.meta(grad, self, indices);
  run_backward(ops::PoolKind::max, grad, self, spatial, nullptr, indices, op.output(0));
  op.finish();
  return grad_input;
}

template <int spatial>
std::vector<int64_t> adaptive_sizes(const Tensor& self, IntArrayRef output_size) {
  const char* name = spatial == 2 ? "adaptive_avg_pool2d" : "adaptive_avg_pool3d";
  TORCH_CHECK(output_size.size() == spatial, name, ": output_size must be ", spatial);
  TORCH_CHECK(self.dim() == spatial + 1 || self.dim() == spatial + 2, name, "(): Expected ", spatial + 1, "D or ",
              spatial + 2, "D tensor, but got ", self.sizes());
  for (int d = 1; d <= spatial; ++d)
    TORCH_CHECK(self.size(-d) > 0, name,
                "(): Expected input to have non-zero size for non-batch dimensions, but input has sizes ",
                self.sizes());
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end() - spatial);
  sizes.insert(sizes.end(), output_size.begin(), output_size.end());
  return sizes;
}

template <int spatial>
Tensor& adaptive_avg_pool_out(const Tensor& self, IntArrayRef output_size, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), "expected dtype ", self.scalar_type(),
              " for `output` but got dtype ", out.scalar_type());
  at::native::resize_output(out, adaptive_sizes<spatial>(self, output_size));
  run_forward(ops::PoolKind::average, self, spatial, nullptr, out, Tensor());
  return out;
}

template <int spatial>
Tensor adaptive_avg_pool(const Tensor& self, IntArrayRef output_size) {
  // In three dimensions contiguous whatever the input's layout, as on the CPU and on CUDA.
  const at::MemoryFormat format = spatial == 2 ? format_of(self, spatial) : at::MemoryFormat::Contiguous;
  Tensor out = empty_like_options(adaptive_sizes<spatial>(self, output_size), self.options(), format);
  return adaptive_avg_pool_out<spatial>(self, output_size, out);
}

template <int spatial>
Tensor& adaptive_avg_pool_backward_out(const Tensor& grad, const Tensor& self, Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  at::native::adaptive_pool_empty_output_check(
      grad, spatial == 2 ? "adaptive_avg_pool2d_backward" : "adaptive_avg_pool3d_backward");
  TORCH_CHECK(grad.scalar_type() == self.scalar_type(), "expected dtype ", self.scalar_type(),
              " for `grad_output` but got dtype ", grad.scalar_type());
  TORCH_CHECK(grad.dim() == self.dim(),
              "adaptive_avg_pool_backward: gradient and input must have the same number of dimensions");
  at::native::resize_output(grad_input, self.sizes());
  run_backward(ops::PoolKind::average, grad, self, spatial, nullptr, Tensor(), grad_input);
  return grad_input;
}

template <int spatial>
Tensor adaptive_avg_pool_backward(const Tensor& grad, const Tensor& self) {
  Tensor grad_input = empty_like_options(self.sizes(), self.options(), format_of(self, spatial));
  return adaptive_avg_pool_backward_out<spatial>(grad, self, grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("max_pool2d_with_indices.out", TORCH_FN(max_pool2d_with_indices_out));
  m.impl("max_pool2d_with_indices_backward.grad_input", TORCH_FN(max_pool2d_with_indices_backward_out));
  m.impl("max_pool3d_with_indices", TORCH_FN(max_pool3d_with_indices));
  m.impl("max_pool3d_with_indices.out", TORCH_FN(max_pool3d_with_indices_out));
  m.impl("max_pool3d_with_indices_backward", TORCH_FN(max_pool3d_with_indices_backward));
  m.impl("max_pool3d_with_indices_backward.grad_input", TORCH_FN(max_pool3d_with_indices_backward_out));
  m.impl("avg_pool2d.out", TORCH_FN((avg_pool_out<at::meta::structured_avg_pool2d, 2>)));
  m.impl("avg_pool2d_backward.grad_input",
         TORCH_FN((avg_pool_backward_out<at::meta::structured_avg_pool2d_backward, 2>)));
  m.impl("avg_pool3d.out", TORCH_FN((avg_pool_out<at::meta::structured_avg_pool3d, 3>)));
  m.impl("avg_pool3d_backward.grad_input",
         TORCH_FN((avg_pool_backward_out<at::meta::structured_avg_pool3d_backward, 3>)));
  m.impl("adaptive_max_pool2d.out", TORCH_FN((adaptive_max_pool_out<at::meta::structured_adaptive_max_pool2d, 2>)));
  m.impl("adaptive_max_pool2d_backward.grad_input",
         TORCH_FN((adaptive_max_pool_backward_out<at::meta::structured_adaptive_max_pool2d_backward, 2>)));
  m.impl("adaptive_max_pool3d.out", TORCH_FN((adaptive_max_pool_out<at::meta::structured_adaptive_max_pool3d, 3>)));
  m.impl("adaptive_max_pool3d_backward.grad_input",
         TORCH_FN((adaptive_max_pool_backward_out<at::meta::structured_adaptive_max_pool3d_backward, 3>)));
  m.impl("adaptive_avg_pool2d.out", TORCH_FN(adaptive_avg_pool_out<2>));
  m.impl("_adaptive_avg_pool2d", TORCH_FN(adaptive_avg_pool<2>));
  m.impl("_adaptive_avg_pool2d_backward", TORCH_FN(adaptive_avg_pool_backward<2>));
  m.impl("adaptive_avg_pool3d.out", TORCH_FN(adaptive_avg_pool_out<3>));
  m.impl("_adaptive_avg_pool3d", TORCH_FN(adaptive_avg_pool<3>));
  m.impl("_adaptive_avg_pool3d_backward", TORCH_FN(adaptive_avg_pool_backward<3>));
  m.impl("adaptive_avg_pool3d_backward.grad_input", TORCH_FN(adaptive_avg_pool_backward_out<3>));
}

}  // namespace ocl::aten
