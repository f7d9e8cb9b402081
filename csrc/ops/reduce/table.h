// The operator table of reductions: one row each, as OpenCL C text that kernels_cl/reduce/reduce.clh is compiled with.
#pragma once

#include "ops/core/dtype.h"
#include "ops/reduce/reduce.h"

#include <span>

namespace ocl::ops {

// How elements are read.
enum class ReduceLoad : uint8_t {
  value,     // converted to the accumulator type
  nonzero,   // x != 0 as 0 or 1
  absolute,  // as `value`; |x| for complex x
};

// The accumulator type as a function of input and output type.
enum class ReduceAccumulator : uint8_t {
  sum,      // accumulate_type of the output; sums into boolean count in int64
  compare,  // the input's compute type, small integers widened to int32
  logical,  // uint8
  count,    // int64
  norm,     // real accumulate_type of the output
};

struct ReduceRow {
  Reduction op = Reduction::other;
  const char* name;
  ReduceLoad load;
  ReduceAccumulator accumulator;
  bool indexed = false, centered = false;
  bool keeps_nan = false;  // a NaN among the values is the result, though `combine` may lose it
  const char* identity;    // tokens; LOWEST, HIGHEST and ONE depend on the accumulator
  const char* map;         // expression of x (W lanes; `center` when centered)
  const char* combine;     // expression of a, b; for indexed rows the condition that b beats a
  const char* finish;      // expression of a and param (reduce.h)
};

std::span<const ReduceRow> reduce_table();

const ReduceRow& reduce_row(Reduction op);
// Errors: InvalidArgument for a name that is not in the table.
const ReduceRow& reduce_row(const char* name);
DType reduce_accumulator(const ReduceRow& row, DType input, DType output);

}  // namespace ocl::ops
