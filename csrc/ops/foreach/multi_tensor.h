// Launches over lists of tensors. The tensors of a step are described by a table in device memory (layout:
// kernels_cl/foreach/multi_tensor.clh): rows of references, and one entry per chunk of elements, so that a whole model
// is a few launches. A kernel has twelve buffer arguments; the rows are cut into launches that touch at most twelve
// memory segments.
#pragma once

#include "ops/core/context.h"

#include <array>
#include <functional>
#include <span>
#include <vector>

namespace ocl::ops {

inline constexpr int multi_tensor_lists = 6;

// Tensor i of every list: one element count, dense memory in the same order. Lists that the kernel does not use stay
// null.
struct MultiTensorRow {
  int64_t numel = 0;
  double scalar = 0;
  std::array<const void*, multi_tensor_lists> data{};
};

struct MultiTensor {
  DType compute = DType::float32;  // float32 or float64: type of the constants and scalars
  std::array<double, 16> constants{};
  std::array<const void*, 4> extras{};   // addresses of single values on the device; null: absent
  std::span<const MultiTensorRow> rows;  // rows without elements are skipped
  std::span<const uint64_t>
      stages;  // at most 15; where there are any, they take the place of the constants, their number the last one's
  std::span<const double> scalars;  // one for each row and stage, the stages of a row follow each other
  // Needs one partial result (of the compute type) per chunk, given to the kernels as extra 3.
  bool partials = false;
};

// Runs `chunk_kernel` on every chunk, then `row_kernel` (may be null) on every row. Asynchronous. `issued`: the number
// of rows, from the first on, whose work has been issued; on errors it is less than all.
void launch_multi_tensor(Queue& queue, const MultiTensor& work, Kernel& chunk_kernel, Kernel* row_kernel = nullptr,
                         size_t* issued = nullptr);

// The largest table (TableRing) of a launch over these rows in `stages` stages, in bytes.
size_t multi_tensor_table_bytes(const Device& device, std::span<const MultiTensorRow> rows, size_t stages);

}  // namespace ocl::ops
