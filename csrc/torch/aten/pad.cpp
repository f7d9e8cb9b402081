// Reflection and replication padding in 1 to 3 dimensions (constant padding is composite).
#include "torch/aten/dense_output.h"
#include "torch/aten/versions.h"
#include "ops/pad/pad.h"

#include <ATen/ops/reflection_pad1d_backward_meta.h>
#include <ATen/ops/reflection_pad1d_meta.h>
#include <ATen/ops/reflection_pad3d_backward_meta.h>
#include <ATen/ops/reflection_pad3d_meta.h>
#include <ATen/ops/replication_pad1d_backward_meta.h>
#include <ATen/ops/replication_pad1d_meta.h>
#include <ATen/ops/replication_pad2d_meta.h>
#include <ATen/ops/replication_pad3d_meta.h>

#include <ATen/ops/view_as_real.h>

namespace ocl::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;

// Layout of results: the input's, as on the CPU.
at::MemoryFormat format_of(const Tensor& input, int spatial) {
  return spatial > 1 ? input.suggest_memory_format() : at::MemoryFormat::Contiguous;
}

// Layout that the kernels work in: channels-last images are planes of [H, W, C] of which C is not padded.
at::MemoryFormat kernel_format(const Tensor& input, int spatial) {
  return spatial == 2 ? format_of(input, spatial) : at::MemoryFormat::Contiguous;
}

// `padding` is (left, right, top, bottom, ...), last dimension first.
ops::PadProblem make_problem(const Tensor& input, IntArrayRef padding, int spatial, bool reflect) {
  ops::PadProblem p;
  p.reflect = reflect;
  p.dtype = dtype_of(input.scalar_type());
  if (kernel_format(input, spatial) == at::MemoryFormat::ChannelsLast) {
    p.planes = input.size(0);
    p.input = {input.size(2), input.size(3), input.size(1)};
    p.left = {padding[2], padding[0], 0};
    p.output = {p.input[0] + padding[2] + padding[3], p.input[1] + padding[0] + padding[1], p.input[2]};
    return p;
  }
  for (int64_t d = 0; d < input.dim() - spatial; ++d) p.planes *= input.size(d);
  for (int d = 0; d < spatial; ++d) {
    const int axis = 3 - spatial + d;
    p.input[axis] = input.size(d - spatial);
    p.left[axis] = padding[2 * (spatial - 1 - d)];
    p.output[axis] = p.input[axis] + p.left[axis] + padding[2 * (spatial - 1 - d) + 1];
  }
  return p;
}

// Gives a new result, or an out= that is a tensor of its own, the layout; a view of something else keeps the places
// that it names.
void adopt(const Tensor& out, at::MemoryFormat format) {
  const bool whole = out.is_contiguous() && out.storage_offset() == 0 && out.storage().nbytes() == out.nbytes();
  if (whole) out.resize_(out.sizes(), format);
}

void run_forward(const Tensor& self, IntArrayRef padding, int spatial, bool reflect, const Tensor& out) {
  adopt(out, format_of(self, spatial));
  if (out.numel() == 0) return;
  const at::MemoryFormat format = kernel_format(self, spatial);
  const Tensor x = self.contiguous(format);
  const DenseOutput y(out, format);
  ops::pad_forward(queue_for(self), make_problem(self, padding, spatial, reflect), address(x), y.data());
  y.finish();
}

void run_backward(const Tensor& grad, const Tensor& self, IntArrayRef padding, int spatial, bool reflect,
                  const Tensor& grad_input) {
  adopt(grad_input, format_of(self, spatial));
  if (grad_input.numel() == 0) return;
  if (self.is_complex()) {  // the parts one after the other
    for (int64_t part : {0, 1}) {
      const auto of = [part](const Tensor& t) { return at::view_as_real(t.resolve_conj()).select(-1, part); };
      const Tensor dx =
          empty_like_options(grad_input.sizes(), grad_input.options().dtype(c10::toRealValueType(self.scalar_type())));
      run_backward(of(grad), of(self), padding, spatial, reflect, dx);
      at::view_as_real(grad_input).select(-1, part).copy_(dx);
    }
    return;
  }
  const at::MemoryFormat format = kernel_format(self, spatial);
  const Tensor g = grad.contiguous(format);
  const DenseOutput dx(grad_input, format);
  ops::pad_backward(queue_for(self), make_problem(self, padding, spatial, reflect), address(g), dx.data());
  dx.finish();
}

template <class Meta, int spatial, bool reflect>
Tensor& forward_out(const Tensor& self, IntArrayRef padding, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<Meta, 1> op(out);
  op.meta(self, padding);
  run_forward(self, padding, spatial, reflect, op.output(0));
  op.finish();
  return out;
}

template <class Meta, int spatial, bool reflect>
Tensor& backward_out(const Tensor& grad, const Tensor& self, IntArrayRef padding, Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<Meta, 1> op(grad_input);
  op.meta(grad, self, padding);
  run_backward(grad, self, padding, spatial, reflect, op.output(0));
  op.finish();
  return grad_input;
}

// Output sizes of the operators that have no meta function, after PyTorch's checks.
std::vector<int64_t> checked_sizes(const Tensor& self, IntArrayRef padding, int spatial, bool reflect) {
  if (spatial == 2) check_padding<2>(self, padding);
  if (spatial == 3) check_padding<3>(self, padding);
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end());
  for (int d = 0; d < spatial; ++d) {
    const size_t axis = sizes.size() - 1 - d;
    const int64_t before = padding[2 * d], after = padding[2 * d + 1];
    TORCH_CHECK(!reflect || (before < sizes[axis] && after < sizes[axis]),
                "Padding size should be less than the corresponding input dimension, but got: padding (", before, ", ",
                after, ") at dimension ", axis, " of input ", self.sizes());
    sizes[axis] += before + after;
    TORCH_CHECK(sizes[axis] >= 1, "input ", self.sizes(), " is too small for padding ", padding);
  }
  return sizes;
}

Tensor& reflection_pad2d_out(const Tensor& self, IntArrayRef padding, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  at::native::resize_output(out, checked_sizes(self, padding, 2, true));
  run_forward(self, padding, 2, true, out);
  return out;
}

Tensor reflection_pad2d(const Tensor& self, IntArrayRef padding) {
  Tensor out = empty_like_options({0}, self.options());
  return reflection_pad2d_out(self, padding, out);
}

template <int spatial, bool reflect>
Tensor& plain_backward_out(const Tensor& grad, const Tensor& self, IntArrayRef padding, Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const auto sizes = checked_sizes(self, padding, spatial, reflect);
  TORCH_CHECK(grad.sizes().equals(sizes), "grad_output has size ", grad.sizes(), ", expected ", sizes);
  at::native::resize_output(grad_input, self.sizes());
  run_backward(grad, self, padding, spatial, reflect, grad_input);
  return grad_input;
}

template <int spatial, bool reflect>
Tensor plain_backward(const Tensor& grad, const Tensor& self, IntArrayRef padding) {
  Tensor grad_input = empty_like_options(self.sizes(), self.options());
  return plain_backward_out<spatial, reflect>(grad, self, padding, grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("reflection_pad1d.out", TORCH_FN((forward_out<at::meta::structured_reflection_pad1d, 1, true>)));
  m.impl("reflection_pad1d_backward.grad_input",
         TORCH_FN((backward_out<at::meta::structured_reflection_pad1d_backward, 1, true>)));
  m.impl("reflection_pad2d", TORCH_FN(reflection_pad2d));
  m.impl("reflection_pad2d.out", TORCH_FN(reflection_pad2d_out));
  m.impl("reflection_pad2d_backward", TORCH_FN((plain_backward<2, true>)));
  m.impl("reflection_pad2d_backward.grad_input", TORCH_FN((plain_backward_out<2, true>)));
  m.impl("reflection_pad3d.out", TORCH_FN((forward_out<at::meta::structured_reflection_pad3d, 3, true>)));
  m.impl("reflection_pad3d_backward.grad_input",
         TORCH_FN((backward_out<at::meta::structured_reflection_pad3d_backward, 3, true>)));
  m.impl("replication_pad1d.out", TORCH_FN((forward_out<at::meta::structured_replication_pad1d, 1, false>)));
  m.impl("replication_pad1d_backward.grad_input",
         TORCH_FN((backward_out<at::meta::structured_replication_pad1d_backward, 1, false>)));
  m.impl("replication_pad2d.out", TORCH_FN((forward_out<at::meta::structured_replication_pad2d, 2, false>)));
  m.impl("replication_pad2d_backward", TORCH_FN((plain_backward<2, false>)));
  m.impl("replication_pad2d_backward.grad_input", TORCH_FN((plain_backward_out<2, false>)));
  m.impl("replication_pad3d.out", TORCH_FN((forward_out<at::meta::structured_replication_pad3d, 3, false>)));
  m.impl("replication_pad3d_backward", TORCH_FN((plain_backward<3, false>)));
  m.impl("replication_pad3d_backward.grad_input", TORCH_FN((plain_backward_out<3, false>)));
}

}  // namespace ocl::aten
