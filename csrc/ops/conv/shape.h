// The shape of a convolution as the kernels see it (kernels_cl/conv/shape.clh has the same struct).
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

struct ConvShape {
  int64_t x_stride[5], y_stride[5];  // elements: N C D H W
  int32_t input[3], output[3], kernel[3], stride[3], padding[3], dilation[3];
  int32_t batch, groups, in_per_group, out_per_group;
};

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
    s.kernel[d] = static_cast<int32_t>(p.kernel[d]);
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
