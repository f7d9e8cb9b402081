#include "ops/core/type_error.h"
#include "ops/reduce/table.h"

#include <cstring>
#include <stdexcept>

namespace ocl::ops {

namespace {

using enum ReduceLoad;
using A = ReduceAccumulator;
using R = Reduction;

// Of max and min NaN is the result (keeps_nan), of argmax and argmin the best value.
constexpr const char* larger = "(b) > (a) ? (b) : (a)";
constexpr const char* smaller = "(b) < (a) ? (b) : (a)";
constexpr const char* beats_above = "((b) > (a)) | (((b) != (b)) & ((a) == (a)))";
constexpr const char* beats_below = "((b) < (a)) | (((b) != (b)) & ((a) == (a)))";

constexpr ReduceRow table[] = {
    // op, name, load, accumulator, indexed, centered, keeps NaN, identity, map, combine, finish
    {R::sum, "sum", value, A::sum, false, false, false, "0", "x", "(a) + (b)", "a"},
    {R::mean, "mean", value, A::sum, false, false, false, "0", "x", "(a) + (b)", "(a) / param"},
    {R::nansum, "nansum", value, A::sum, false, false, false, "0", "(x) == (x) ? (x) : CONSTANT(W, 0)", "(a) + (b)",
     "a"},
    {R::prod, "prod", value, A::sum, false, false, false, "ONE", "x", "PRODUCT(a, b)", "a"},
    {R::amax, "amax", value, A::compare, false, false, true, "LOWEST", "x", larger, "a"},
    {R::amin, "amin", value, A::compare, false, false, true, "HIGHEST", "x", smaller, "a"},
    {R::argmax, "argmax", value, A::compare, true, false, false, "LOWEST", "x", beats_above, "a"},
    {R::argmin, "argmin", value, A::compare, true, false, false, "HIGHEST", "x", beats_below, "a"},
    {R::all, "all", nonzero, A::logical, false, false, false, "1", "x", "(a) & (b)", "a"},
    {R::any, "any", nonzero, A::logical, false, false, false, "0", "x", "(a) | (b)", "a"},
    {R::count_nonzero, "count_nonzero", nonzero, A::count, false, false, false, "0", "x", "(a) + (b)", "a"},
    {R::norm_0, "norm_0", nonzero, A::norm, false, false, false, "0", "x", "(a) + (b)", "a"},
    {R::norm_1, "norm_1", absolute, A::norm, false, false, false, "0", "ABSOLUTE(W, x)", "(a) + (b)", "a"},
    {R::norm_2, "norm_2", absolute, A::norm, false, false, false, "0", "(x) * (x)", "(a) + (b)", "sqrt(a)"},
    {R::norm_inf, "norm_inf", absolute, A::norm, false, false, true, "0", "ABSOLUTE(W, x)", larger, "a"},
    {R::norm_negative_inf, "norm_negative_inf", absolute, A::norm, false, false, true, "HIGHEST", "ABSOLUTE(W, x)",
     smaller, "a"},
    {R::norm_p, "norm_p", absolute, A::norm, false, false, false, "0",
     "POWER(ACC, W, ABSOLUTE(W, x), CONSTANT(W, param))", "(a) + (b)", "pow(a, 1 / param)"},
    {R::variance, "variance", value, A::sum, false, true, false, "0", "((x) - center) * ((x) - center)", "(a) + (b)",
     "(a) / param"},
    {R::deviation, "deviation", value, A::sum, false, true, false, "0", "((x) - center) * ((x) - center)", "(a) + (b)",
     "sqrt((a) / param)"},
};

}  // namespace

std::span<const ReduceRow> reduce_table() { return table; }

const ReduceRow& reduce_row(Reduction op) {
  for (const ReduceRow& row : table)
    if (row.op == op && op != R::other) return row;
  throw InvalidArgument("unknown reduction");
}

const ReduceRow& reduce_row(const char* name) {
  for (const ReduceRow& row : table)
    if (std::strcmp(row.name, name) == 0) return row;
  throw InvalidArgument(std::string("there is no reduction ") + name);
}

DType reduce_accumulator(const ReduceRow& row, DType input, DType output) {
  switch (row.accumulator) {
    case A::sum: return accumulate_type(output);
    case A::logical: return DType::uint8;
    case A::count: return DType::int64;
    case A::norm: {
      const DType type = accumulate_type(output);
      return type == DType::complex64 ? DType::float32 : type == DType::complex128 ? DType::float64 : type;
    }
    case A::compare: break;
  }
  if (is_complex(input)) not_implemented(row.name, input);
  const DType type = compute_type(input);
  if (!is_integral(type) || type == DType::int64 || type == DType::uint64) return type;
  return type == DType::uint32 ? DType::int64 : DType::int32;
}

}  // namespace ocl::ops
