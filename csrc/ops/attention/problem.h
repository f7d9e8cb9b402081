// Sizes and options of one call, as the attention kernels take them (kernels_cl/attention/attention.clh).
#pragma once

#include "ops/attention/attention.h"

namespace ocl::ops::attention_detail {

struct Problem {
  int32_t heads, key_heads, length, keys, width, value_width, causal;
  int64_t batch;
  float scale, keep_scale;
  uint32_t threshold;
};

inline TensorView no_bias() { return TensorView::contiguous(nullptr, DType::float32, {0, 0, 0, 0}); }

#define STRIDES_OF(t) (t).stride(0), (t).stride(1), (t).stride(2)
#define SHAPE_OF(p, options)                                                                         \
  (p).heads, (p).key_heads, (p).length, (p).keys, (p).width, (p).value_width, (p).causal, (p).scale, \
      (options).state.seed, (options).state.offset, (p).threshold, (p).keep_scale

}  // namespace ocl::ops::attention_detail
