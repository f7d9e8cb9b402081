#include "ops/conv/conv.h"

#include "ops/conv/plan.h"
#include "ops/elementwise/elementwise.h"

#include <limits>
#include <string>

namespace ocl::ops {

void check_conv(const ConvProblem& p) {
  auto require = [](bool condition, const char* what) {
    if (!condition) throw InvalidArgument(std::string("convolution: ") + what);
  };
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  require(p.groups >= 1 && p.in_channels % p.groups == 0 && p.out_channels % p.groups == 0,
          "channels are not divisible by groups");
  require(p.batch <= limit && p.in_channels <= limit && p.out_channels <= limit, "batch or channels above 2^31 - 1");
  for (int d = 0; d < 3; ++d) {
    require(p.kernel[d] >= 1 && p.stride[d] >= 1 && p.dilation[d] >= 1 && p.padding[d] >= 0,
            "kernel, stride, dilation and padding must be positive");
    require(p.input[d] + 2 * p.padding[d] <= limit && p.output[d] * p.stride[d] <= limit,
            "a spatial size above 2^31 - 1");
    require((p.output[d] - 1) * p.stride[d] - 2 * p.padding[d] + p.dilation[d] * (p.kernel[d] - 1) < p.input[d] ||
                p.output[d] <= 0,
            "the output is larger than input, padding and kernel allow");
  }
}

ConvProblem taps_as_channels(ConvProblem p) {
  constexpr std::array<int64_t, 3> one{1, 1, 1}, none{0, 0, 0};
  if (p.output != one || p.padding != none || p.kernel != p.input || p.channels_last || p.filters_last) return p;
  p.in_channels *= p.taps();
  p.input = p.kernel = p.stride = p.dilation = one;
  return p;
}

void limit_results(Queue& queue, const ConvProblem& p, void* results) {
  const TensorView y = TensorView::contiguous(results, p.dtype, {p.y_numel()});
  elementwise(queue, elementwise_row("clamp"), compute_type(p.dtype), y, {y}, {p.limits.low, p.limits.high});
}

}  // namespace ocl::ops
