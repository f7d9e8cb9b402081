// How a separable convolution is cut into tasks (kernels_cl/conv/separable.cpu.cl).
#pragma once

#include "ops/conv/separable.h"

namespace ocl::ops {

struct SeparableCut {
  int64_t band = 0, bands = 0;    // rows of the result in a task, tasks of an image
  int64_t chunks = 0, parts = 0;  // chunks of 32 channels in a task, tasks that share a band
  int64_t rows = 0, pitch = 0, places = 0;
  size_t image_bytes = 0, middle_bytes = 0, sums_bytes = 0, places_bytes = 0;
  size_t local_bytes() const { return image_bytes + middle_bytes + sums_bytes + places_bytes; }
};

// band is 0 where not even one row of results fits the local memory. One part where there is squeeze and excite.
SeparableCut separable_cut(const SeparableProblem& problem, const PlanTarget& target);

}  // namespace ocl::ops
