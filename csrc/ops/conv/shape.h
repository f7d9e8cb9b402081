// The shape of a convolution as the kernels see it.
#pragma once

#include "ops/conv/conv.h"
#include "params/conv.h"

namespace ocl::ops {

using params::ConvShape;

inline ConvShape conv_shape(const ConvProblem& p) {
  ConvShape s{};
  auto strides = [&](int64_t* stride, int64_t channels, const std::array<int64_t, 3>& size) {
    const int64_t pixel = p.channels_last ? channels : 1;
    stride[4] = pixel;
    stride[3] = size[2] * pixel;
    stride[2] = size[1] * stride[3];
    stride[1] = p.channels_last ? 1 : size[0] * stride[2];
    stride[0] = channels * size[0] * size[1] * size[2];
  };
  strides(s.x_stride, p.in_channels, p.input);
  strides(s.y_stride, p.out_channels, p.output);
  for (int d = 0; d < 3; ++d) {
    s.input[d] = static_cast<int32_t>(p.input[d]);
    s.output[d] = static_cast<int32_t>(p.output[d]);
    s.kernel_size[d] = static_cast<int32_t>(p.kernel[d]);
    s.stride[d] = static_cast<int32_t>(p.stride[d]);
    s.padding[d] = static_cast<int32_t>(p.padding[d]);
    s.dilation[d] = static_cast<int32_t>(p.dilation[d]);
  }
  s.batch = static_cast<int32_t>(p.batch);
  s.groups = static_cast<int32_t>(p.groups);
  s.in_per_group = static_cast<int32_t>(p.in_per_group());
  s.out_per_group = static_cast<int32_t>(p.out_per_group());
  return s;
}

}  // namespace ocl::ops
