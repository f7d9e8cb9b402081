// fractional_max_pool2d and 3d.
#include "torch/aten/dense_output.h"
#include "ops/pool/fractional.h"

#include <ATen/native/FractionalMaxPooling.h>
#include <ATen/ops/fractional_max_pool2d_backward_meta.h>
#include <ATen/ops/fractional_max_pool2d_meta.h>
#include <ATen/ops/fractional_max_pool3d_meta.h>
#include <ATen/ops/zeros.h>

namespace ocl::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;

template <int spatial>
void run(const Tensor& self, IntArrayRef kernel_size, IntArrayRef output_size, const Tensor& samples,
         const Tensor& output, const Tensor& indices) {
  at::native::fractional_max_pool_check_shape<spatial>(self, samples);
  ops::FractionalPoolProblem p;
  p.dtype = dtype_of(self.scalar_type());
  p.planes = self.size(-spatial - 1) * (self.dim() > spatial + 1 ? self.size(0) : 1);
  p.axes = spatial;
  for (int d = 3 - spatial; d < 3; ++d) {
    const int axis = d - (3 - spatial);
    p.input[d] = static_cast<int32_t>(self.size(axis - spatial));
    p.output[d] = static_cast<int32_t>(output_size[axis]);
    p.kernel[d] = static_cast<int32_t>(kernel_size[axis]);
    p.sample[d] = spatial == 2 ? 1 - axis : axis;  // the samples of two dimensions are (width, height)
  }
  const Tensor x = self.contiguous(), u = samples.contiguous();
  const DenseOutput y(output), places(indices);
  ops::fractional_max_pool(queue_for(self), p, address(x), address(u), y.data(), places.data());
  y.finish();
  places.finish();
}

template <class Meta, int spatial>
std::tuple<Tensor&, Tensor&> forward(const Tensor& self, IntArrayRef kernel_size, IntArrayRef output_size,
                                     const Tensor& samples, Tensor& output, Tensor& indices) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<Meta, 2> op(output, indices);
  op.meta(self, kernel_size, output_size, samples);
  run<spatial>(self, kernel_size, output_size, samples, op.output(0), op.output(1));
  op.finish();
  return {output, indices};
}

// Windows may overlap: gradients are added.
void scatter_gradient(const Tensor& grad, const Tensor& indices, int spatial, const Tensor& grad_input) {
  grad_input.zero_();
  if (grad.numel() == 0) return;
  Tensor planes = grad_input.is_contiguous() ? grad_input.flatten(-spatial)
                                             : at::zeros(grad_input.sizes(), grad_input.options()).flatten(-spatial);
  planes.scatter_add_(-1, indices.flatten(-spatial), grad.flatten(-spatial));
  if (!grad_input.is_contiguous()) grad_input.copy_(planes.view(grad_input.sizes()));
}

Tensor& backward2d_out(const Tensor& grad, const Tensor& self, IntArrayRef kernel_size, IntArrayRef output_size,
                       const Tensor& indices, Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<at::meta::structured_fractional_max_pool2d_backward, 1> op(grad_input);
  op.meta(grad, self, kernel_size, output_size, indices);
  scatter_gradient(grad, indices, 2, op.output(0));
  op.finish();
  return grad_input;
}

void check_gradient3d(const Tensor& grad, const Tensor& self, IntArrayRef output_size) {
  TORCH_CHECK(output_size.size() == 3, "fractional_max_pool3d_backward: output_size must be three integers");
  for (int axis = 0; axis < 3; ++axis)
    TORCH_CHECK(grad.dim() == self.dim() && grad.size(axis - 3) == output_size[axis],
                "fractional_max_pool3d_backward_out(): ",
                (const char*[]){"gradOutput time", "gradOutput height", "gradOutput width"}[axis], " unexpected");
}

Tensor& backward3d_out(const Tensor& grad, const Tensor& self, IntArrayRef kernel_size, IntArrayRef output_size,
                       const Tensor& indices, Tensor& grad_input) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  check_gradient3d(grad, self, output_size);
  at::native::resize_output(grad_input, self.sizes());
  scatter_gradient(grad, indices, 3, grad_input);
  return grad_input;
}
Tensor backward3d(const Tensor& grad, const Tensor& self, IntArrayRef kernel_size, IntArrayRef output_size,
                  const Tensor& indices) {
  Tensor grad_input = empty_like_options(self.sizes(), self.options());
  return backward3d_out(grad, self, kernel_size, output_size, indices, grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fractional_max_pool2d.output", TORCH_FN((forward<at::meta::structured_fractional_max_pool2d, 2>)));
  m.impl("fractional_max_pool2d_backward.grad_input", TORCH_FN(backward2d_out));
  m.impl("fractional_max_pool3d.output", TORCH_FN((forward<at::meta::structured_fractional_max_pool3d, 3>)));
  m.impl("fractional_max_pool3d_backward", TORCH_FN(backward3d));
  m.impl("fractional_max_pool3d_backward.grad_input", TORCH_FN(backward3d_out));
}

}  // namespace ocl::aten
