// Resampling: nearest, nearest-exact, linear and cubic in 1 to 3 dimensions; linear, cubic and Lanczos without aliasing
// in 2.
#include "torch/aten/dense_output.h"
#include "ops/upsample/bytes.h"

#include <ATen/ops/_upsample_bicubic2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_meta.h>
#if __has_include(<ATen/ops/_upsample_lanczos2d_aa_meta.h>)
#include <ATen/ops/_upsample_lanczos2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_lanczos2d_aa_meta.h>
#define OCL_LANCZOS 1
#endif
#include <ATen/ops/_upsample_nearest_exact1d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_meta.h>
#include <ATen/ops/upsample_bicubic2d_backward_meta.h>
#include <ATen/ops/upsample_bicubic2d_meta.h>
#include <ATen/ops/upsample_bilinear2d_backward_meta.h>
#include <ATen/ops/upsample_bilinear2d_meta.h>
#include <ATen/ops/upsample_linear1d_backward_meta.h>
#include <ATen/ops/upsample_linear1d_meta.h>
#include <ATen/ops/upsample_nearest1d_backward_meta.h>
#include <ATen/ops/upsample_nearest1d_meta.h>
#include <ATen/ops/upsample_nearest2d_backward_meta.h>
#include <ATen/ops/upsample_nearest2d_meta.h>
#include <ATen/ops/upsample_nearest3d_backward_meta.h>
#include <ATen/ops/upsample_nearest3d_meta.h>
#include <ATen/ops/upsample_trilinear3d_backward_meta.h>
#include <ATen/ops/upsample_trilinear3d_meta.h>

namespace ocl::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Scale = std::optional<double>;
using Mode = ops::UpsampleMode;

ops::UpsampleProblem make_problem(Mode mode, int spatial, IntArrayRef input, IntArrayRef output, at::ScalarType type,
                                  at::MemoryFormat format) {
  ops::UpsampleProblem p;
  p.mode = mode;
  p.dtype = dtype_of(type);
  p.channels_last = format != at::MemoryFormat::Contiguous;
  p.batch = input[0];
  p.channels = input[1];
  for (int d = 0; d < 3; ++d) {
    const int at = d - (3 - spatial) + 2;
    p.resampled[d] = at >= 2;
    if (at < 2) continue;
    p.input[d] = input[at];
    p.output[d] = output[at];
  }
  return p;
}

// The trailing arguments of the operators: align_corners where there is one, then the scale of each axis.
void set_options(ops::UpsampleProblem& p, int axis) {}
template <class... Rest>
void set_options(ops::UpsampleProblem& p, int axis, Scale scale, Rest... rest) {
  p.scale_factor[axis] = scale.value_or(0);
  set_options(p, axis + 1, rest...);
}
template <class... Rest>
void set_options(ops::UpsampleProblem& p, int axis, bool align_corners, Rest... rest) {
  p.align_corners = align_corners;
  set_options(p, axis, rest...);
}

at::MemoryFormat format_of(const Tensor& x) {
  return x.dim() > 3 ? x.suggest_memory_format() : at::MemoryFormat::Contiguous;
}

// Other types go through float32 and are rounded; bytes in two dimensions have kernels that round as the CPU does.
bool takes(Mode mode, at::ScalarType type) {
  return at::isFloatingType(type) || (type == at::kByte && (mode == Mode::nearest || mode == Mode::nearest_exact));
}

template <class Meta, int spatial, Mode mode, class... Options>
struct Resample {
  static Tensor& forward(const Tensor& self, IntArrayRef output_size, Options... options, Tensor& out) {
    const c10::OptionalDeviceGuard guard(at::device_of(self));
    Out<Meta, 1> op(out);
    op.meta(self, output_size, options...);
    if (op.output(0).numel() == 0) return out;
    const at::MemoryFormat format = format_of(self);
    const bool bytes = spatial == 2 && self.scalar_type() == at::kByte,
               direct = bytes || takes(mode, self.scalar_type());
    const Tensor x = (direct ? self : self.to(at::kFloat)).contiguous(format);
    const Tensor target = direct ? op.output(0) : empty_like_options(op.output(0).sizes(), x.options(), format);
    const DenseOutput y(target, format);
    ops::UpsampleProblem p = make_problem(mode, spatial, x.sizes(), target.sizes(), x.scalar_type(), format);
    set_options(p, 3 - spatial, options...);
    if (bytes && !takes(mode, at::kByte))
      ops::upsample_bytes(queue_for(x), p, address(x), y.data());
    else
      ops::upsample_forward(queue_for(x), p, address(x), y.data());
    y.finish();
    if (!direct) op.output(0).copy_(target.round_().clamp_(0, 255));
    op.finish();
    return out;
  }

  static Tensor& backward(const Tensor& grad, IntArrayRef output_size, IntArrayRef input_size, Options... options,
                          Tensor& grad_input) {
    const c10::OptionalDeviceGuard guard(at::device_of(grad));
    Out<Meta, 1> op(grad_input);
    op.meta(grad, output_size, input_size, options...);
    if (op.output(0).numel() == 0) return grad_input;
    const at::MemoryFormat format = format_of(grad);
    const Tensor g = grad.contiguous(format);
    const DenseOutput dx(op.output(0), format);
    ops::UpsampleProblem p = make_problem(mode, spatial, input_size, g.sizes(), g.scalar_type(), format);
    set_options(p, 3 - spatial, options...);
    ops::upsample_backward(queue_for(g), p, address(g), dx.data());
    dx.finish();
    op.finish();
    return grad_input;
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("upsample_nearest1d.out",
         TORCH_FN((Resample<at::meta::structured_upsample_nearest1d, 1, Mode::nearest, Scale>::forward)));
  m.impl("upsample_nearest1d_backward.grad_input",
         TORCH_FN((Resample<at::meta::structured_upsample_nearest1d_backward, 1, Mode::nearest, Scale>::backward)));
  m.impl("upsample_nearest2d.out",
         TORCH_FN((Resample<at::meta::structured_upsample_nearest2d, 2, Mode::nearest, Scale, Scale>::forward)));
  m.impl(
      "upsample_nearest2d_backward.grad_input",
      TORCH_FN((Resample<at::meta::structured_upsample_nearest2d_backward, 2, Mode::nearest, Scale, Scale>::backward)));
  m.impl("upsample_nearest3d.out",
         TORCH_FN((Resample<at::meta::structured_upsample_nearest3d, 3, Mode::nearest, Scale, Scale, Scale>::forward)));
  m.impl("upsample_nearest3d_backward.grad_input",
         TORCH_FN((Resample<at::meta::structured_upsample_nearest3d_backward, 3, Mode::nearest, Scale, Scale,
                            Scale>::backward)));
  m.impl("_upsample_nearest_exact1d.out",
         TORCH_FN((Resample<at::meta::structured__upsample_nearest_exact1d, 1, Mode::nearest_exact, Scale>::forward)));
  m.impl(
      "_upsample_nearest_exact1d_backward.grad_input",
      TORCH_FN((
          Resample<at::meta::structured__upsample_nearest_exact1d_backward, 1, Mode::nearest_exact, Scale>::backward)));
  m.impl("_upsample_nearest_exact2d.out",
         TORCH_FN((
             Resample<at::meta::structured__upsample_nearest_exact2d, 2, Mode::nearest_exact, Scale, Scale>::forward)));
  m.impl("_upsample_nearest_exact2d_backward.grad_input",
         TORCH_FN((Resample<at::meta::structured__upsample_nearest_exact2d_backward, 2, Mode::nearest_exact, Scale,
                            Scale>::backward)));
  m.impl("_upsample_nearest_exact3d.out", TORCH_FN((Resample<at::meta::structured__upsample_nearest_exact3d, 3,
                                                             Mode::nearest_exact, Scale, Scale, Scale>::forward)));
  m.impl("_upsample_nearest_exact3d_backward.grad_input",
         TORCH_FN((Resample<at::meta::structured__upsample_nearest_exact3d_backward, 3, Mode::nearest_exact, Scale,
                            Scale, Scale>::backward)));
  m.impl("upsample_linear1d.out",
         TORCH_FN((Resample<at::meta::structured_upsample_linear1d, 1, Mode::linear, bool, Scale>::forward)));
  m.impl("upsample_linear1d_backward.grad_input",
         TORCH_FN((Resample<at::meta::structured_upsample_linear1d_backward, 1, Mode::linear, bool, Scale>::backward)));
  m.impl("upsample_bilinear2d.out",
         TORCH_FN((Resample<at::meta::structured_upsample_bilinear2d, 2, Mode::linear, bool, Scale, Scale>::forward)));
  m.impl(
      "upsample_bilinear2d_backward.grad_input",
      TORCH_FN((
          Resample<at::meta::structured_upsample_bilinear2d_backward, 2, Mode::linear, bool, Scale, Scale>::backward)));
  m.impl(
      "upsample_trilinear3d.out",
      TORCH_FN(
          (Resample<at::meta::structured_upsample_trilinear3d, 3, Mode::linear, bool, Scale, Scale, Scale>::forward)));
  m.impl("upsample_trilinear3d_backward.grad_input",
         TORCH_FN((Resample<at::meta::structured_upsample_trilinear3d_backward, 3, Mode::linear, bool, Scale, Scale,
                            Scale>::backward)));
  m.impl("upsample_bicubic2d.out",
         TORCH_FN((Resample<at::meta::structured_upsample_bicubic2d, 2, Mode::cubic, bool, Scale, Scale>::forward)));
  m.impl(
      "upsample_bicubic2d_backward.grad_input",
      TORCH_FN(
          (Resample<at::meta::structured_upsample_bicubic2d_backward, 2, Mode::cubic, bool, Scale, Scale>::backward)));
  m.impl("_upsample_bilinear2d_aa.out", TORCH_FN((Resample<at::meta::structured__upsample_bilinear2d_aa, 2,
                                                           Mode::linear_antialias, bool, Scale, Scale>::forward)));
  m.impl("_upsample_bilinear2d_aa_backward.grad_input",
         TORCH_FN((Resample<at::meta::structured__upsample_bilinear2d_aa_backward, 2, Mode::linear_antialias, bool,
                            Scale, Scale>::backward)));
  m.impl("_upsample_bicubic2d_aa.out", TORCH_FN((Resample<at::meta::structured__upsample_bicubic2d_aa, 2,
                                                          Mode::cubic_antialias, bool, Scale, Scale>::forward)));
  m.impl("_upsample_bicubic2d_aa_backward.grad_input",
         TORCH_FN((Resample<at::meta::structured__upsample_bicubic2d_aa_backward, 2, Mode::cubic_antialias, bool, Scale,
                            Scale>::backward)));
#ifdef OCL_LANCZOS
  m.impl("_upsample_lanczos2d_aa.out", TORCH_FN((Resample<at::meta::structured__upsample_lanczos2d_aa, 2,
                                                          Mode::lanczos_antialias, bool, Scale, Scale>::forward)));
  m.impl("_upsample_lanczos2d_aa_backward.grad_input",
         TORCH_FN((Resample<at::meta::structured__upsample_lanczos2d_aa_backward, 2, Mode::lanczos_antialias, bool,
                            Scale, Scale>::backward)));
#endif
}

}  // namespace ocl::aten
