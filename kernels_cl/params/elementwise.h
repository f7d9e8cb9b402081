// Elementwise operators. Strides in elements.
#pragma once

#include "params/types.h"

PARAMS_BEGIN

enum {
  strided_dims = 8,     // dimensions of the strided kernel
  permute_batches = 6,  // dimensions behind the two that permute's tiles have
  most_steps = 12       // of a fused sequence
};

// Strides of the output and of the inputs.
typedef struct {
  int64_t sizes[strided_dims];
  int64_t strides[5][strided_dims];
} StridedGeometry;
PARAMS_LAYOUT(StridedGeometry, 384);

typedef struct {
  int64_t size0, from0, size1, from1, to1;
  int64_t sizes[permute_batches], from[permute_batches], to[permute_batches];
} PermuteGeometry;
PARAMS_LAYOUT(PermuteGeometry, 184);

// An operator of a fused sequence. Bit k of `advances`: x[k] has n elements; otherwise it has one, or is the number
// value[k] where x[k] is 0.
typedef struct {
  uint64_t y, x[3];
  float value[3], scalar[3];
  int32_t op, advances;
} SequenceStep;
PARAMS_LAYOUT(SequenceStep, 64);

typedef struct {
  SequenceStep step[most_steps];
} SequenceSteps;
PARAMS_LAYOUT(SequenceSteps, 768);

PARAMS_END
