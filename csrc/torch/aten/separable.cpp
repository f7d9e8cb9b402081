// The blocks of mobile networks in one call, for torch_ocl.optimize: no gradients, float32, CPU runtimes.
#include "ops/conv/separable.h"

#include "torch/aten/common.h"

namespace ocl::aten {
namespace {

using ops::SeparableProblem;

// width, results, hidden, kernel, stride, pad_h, pad_w, whether there is a first convolution, whether x is added
constexpr size_t shape_numbers = 9;
constexpr int64_t lanes = ops::separable_panel;

int64_t whole(int64_t channels) { return (channels + lanes - 1) / lanes * lanes; }

// `index`-th of triples kind, low, high.
ops::ConvActivation activation_of(at::ArrayRef<double> numbers, size_t index) {
  using Kind = ops::ConvActivation::Kind;
  const double kind = numbers[3 * index];
  TORCH_CHECK(kind >= 0 && kind <= static_cast<double>(Kind::sigmoid), "unknown activation ", kind);
  return {static_cast<Kind>(kind), static_cast<float>(numbers[3 * index + 1]),
          static_cast<float>(numbers[3 * index + 2])};
}

void check_input(const at::Tensor& x) {
  TORCH_CHECK(x.dim() == 4 && x.scalar_type() == at::kFloat, "expected a float32 input of 4 dimensions, but got ",
              x.scalar_type(), " of size ", x.sizes());
}

// A packed operand: dense, on x's device, with this many elements.
const void* packed(const at::Tensor& tensor, const at::Tensor& x, int64_t count, const char* name) {
  TORCH_CHECK(tensor.device() == x.device() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous() &&
                  tensor.numel() == count,
              name, ": expected ", count, " packed float32 elements on ", x.device(), ", but got ", tensor.toString(),
              " of size ", tensor.sizes(), " on ", tensor.device());
  return address(tensor);
}

SeparableProblem problem_of(const at::Tensor& x, at::IntArrayRef shape) {
  check_input(x);
  TORCH_CHECK(shape.size() == shape_numbers, "expected ", shape_numbers, " numbers of the shape");
  SeparableProblem p;
  p.batch = x.size(0), p.sources = x.size(1), p.in_h = x.size(2), p.in_w = x.size(3);
  p.width = shape[0], p.results = shape[1], p.hidden = shape[2], p.kernel = shape[3], p.stride = shape[4];
  p.pad_h = shape[5], p.pad_w = shape[6], p.expand = shape[7] != 0, p.residual = shape[8] != 0;
  TORCH_CHECK(p.width > 0 && p.results > 0 && p.hidden >= 0 && p.kernel > 0 && p.stride > 0 && p.pad_h >= 0 &&
                  p.pad_w >= 0 && p.sources > 0,
              "invalid shape ", shape);
  p.out_h = (p.in_h + 2 * p.pad_h - p.kernel) / p.stride + 1,
  p.out_w = (p.in_w + 2 * p.pad_w - p.kernel) / p.stride + 1;
  TORCH_CHECK(p.in_h > 0 && p.in_w > 0 && p.in_h + 2 * p.pad_h >= p.kernel && p.in_w + 2 * p.pad_w >= p.kernel,
              "Calculated padded input size per channel: (", p.in_h + 2 * p.pad_h, " x ", p.in_w + 2 * p.pad_w,
              "). Kernel size: (", p.kernel, " x ", p.kernel, "). Kernel size can't be greater than actual input size");
  TORCH_CHECK(!p.residual || (p.sources == p.results && p.in_h == p.out_h && p.in_w == p.out_w),
              "the input has another size than the result, to which it is added");
  return p;
}

bool fits(const at::Tensor& x, at::IntArrayRef shape) {
  return ops::separable_refuses(problem_of(x, shape), ops::PlanTarget(queue_for(x).device())) == nullptr;
}

at::Tensor separable_convolution(const at::Tensor& input, at::TensorList expand, at::TensorList depthwise,
                                 at::TensorList excite, at::TensorList project, at::IntArrayRef shape,
                                 at::ArrayRef<double> activations) {
  const c10::DeviceGuard guard(input.device());
  SeparableProblem p = problem_of(input, shape);
  TORCH_CHECK(expand.size() == (p.expand ? 2 : 0) && depthwise.size() == 2 && project.size() == 2 &&
                  excite.size() == (p.hidden ? 4 : 0) && activations.size() == 15,
              "separable_convolution: expected a weight and a bias of each convolution and five activations");
  p.expanded = activation_of(activations, 0), p.filtered = activation_of(activations, 1);
  p.projected = activation_of(activations, 2), p.squeezed = activation_of(activations, 3);
  p.gate = activation_of(activations, 4);
  const at::Tensor x = input.contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor y =
      empty_like_options({p.batch, p.results, p.out_h, p.out_w}, input.options(), at::MemoryFormat::ChannelsLast);
  ops::SeparableOperands t{};
  t.x = address(x), t.y = address(y);
  if (p.expand) {
    t.expand = packed(expand[0], x, whole(p.width) * p.sources, "expand");
    t.expand_bias = packed(expand[1], x, whole(p.width), "bias of expand");
  }
  t.depthwise = packed(depthwise[0], x, whole(p.width) * p.kernel * p.kernel, "depthwise");
  t.depthwise_bias = packed(depthwise[1], x, whole(p.width), "bias of depthwise");
  t.project = packed(project[0], x, whole(p.results) * (p.hidden ? p.width : whole(p.width)), "project");
  t.project_bias = packed(project[1], x, whole(p.results), "bias of project");
  if (p.hidden) {
    t.squeeze = packed(excite[0], x, p.hidden * p.width, "squeeze");
    t.squeeze_bias = packed(excite[1], x, p.hidden, "bias of squeeze");
    t.excite = packed(excite[2], x, p.hidden * p.width, "excite");
    t.excite_bias = packed(excite[3], x, p.width, "bias of excite");
  }
  ops::separable_convolution(queue_for(x), p, t);
  return y;
}

at::Tensor packed_pointwise(const at::Tensor& input, const at::Tensor& weights, const at::Tensor& bias, int64_t results,
                            at::ArrayRef<double> activation) {
  const c10::DeviceGuard guard(input.device());
  check_input(input);
  TORCH_CHECK(activation.size() == 3 && results > 0, "packed_pointwise: expected an activation and some results");
  const at::Tensor x = input.contiguous(at::MemoryFormat::ChannelsLast);
  TORCH_CHECK(queue_for(x).device().cpu_style(), "packed_pointwise: made for CPU runtimes");
  at::Tensor y =
      empty_like_options({x.size(0), results, x.size(2), x.size(3)}, input.options(), at::MemoryFormat::ChannelsLast);
  ops::PointwiseProblem p;
  p.images = x.size(0), p.pixels = x.size(2) * x.size(3), p.sources = x.size(1), p.results = results;
  p.activation = activation_of(activation, 0);
  ops::packed_pointwise(queue_for(x), p,
                        {address(x), packed(weights, x, whole(results) * p.sources, "weights"),
                         packed(bias, x, whole(results), "bias"), nullptr, nullptr, address(y)});
  return y;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(ocl, m) {
  m.def("separable_fits(Tensor x, int[] shape) -> bool");
  m.def(
      "separable_convolution(Tensor x, Tensor[] expand, Tensor[] depthwise, Tensor[] excite, Tensor[] project, "
      "int[] shape, float[] activations) -> Tensor");
  m.def("packed_pointwise(Tensor x, Tensor weights, Tensor bias, int results, float[] activation) -> Tensor");
}
TORCH_LIBRARY_IMPL(ocl, PrivateUse1, m) {
  m.impl("separable_fits", fits);
  m.impl("separable_convolution", separable_convolution);
  m.impl("packed_pointwise", packed_pointwise);
}

}  // namespace ocl::aten
