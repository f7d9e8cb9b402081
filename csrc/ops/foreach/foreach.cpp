#include "ops/foreach/foreach.h"

#include "base/environment.h"
#include "opencl/memory/caching_allocator.h"
#include "opencl/memory/out_of_memory.h"
#include "opencl/program/build_ahead.h"
#include "ops/core/build_failures.h"
#include "ops/core/type_error.h"
#include "ops/foreach/chain.h"
#include "ops/foreach/table_ring.h"

#include <stdexcept>
#include <string>

namespace ocl::ops {

namespace {

struct Row {
  Foreach op;
  const char* name;
  int inputs;
  const char* expression;  // of a, b, c, s: vectors or scalars of the compute type
};
constexpr Row rows_table[] = {
    {Foreach::add_scalar, "add", 1, "(a + s)"},
    {Foreach::sub_scalar, "sub", 1, "(a - s)"},
    {Foreach::mul_scalar, "mul", 1, "(a * s)"},
    {Foreach::div_scalar, "div", 1, "(a / s)"},
    {Foreach::clamp_min_scalar, "clamp_min", 1, "(((a >= s) | (a != a)) ? a : s)"},
    {Foreach::clamp_max_scalar, "clamp_max", 1, "(((a <= s) | (a != a)) ? a : s)"},
    {Foreach::pow_scalar, "pow", 1, "pow_of(a, s)"},
    {Foreach::scalar_pow, "pow", 1, "pow_of(s, a)"},
    {Foreach::add, "add", 2, "(a + s * b)"},
    {Foreach::sub, "sub", 2, "(a - s * b)"},
    {Foreach::mul, "mul", 2, "(a * b)"},
    {Foreach::div, "div", 2, "(a / b)"},
    {Foreach::clamp_min, "clamp_min", 2, "(((a >= b) | (a != a)) ? a : b)"},
    {Foreach::clamp_max, "clamp_max", 2, "(((a <= b) | (a != a)) ? a : b)"},
    {Foreach::pow, "pow", 2, "pow_of(a, b)"},
    {Foreach::addcmul, "addcmul", 3, "(a + s * b * c)"},
    {Foreach::addcdiv, "addcdiv", 3, "(a + s * b / c)"},
    {Foreach::lerp, "lerp", 3, "(((c < (REAL)0.5) & (c > (REAL)-0.5)) ? a + c * (b - a) : b - (b - a) * (1 - c))"},
    {Foreach::lerp_scalar, "lerp", 2,
     "(((s < (REAL)0.5) & (s > (REAL)-0.5)) ? a + s * (b - a) : b - (b - a) * (1 - s))"},
    {Foreach::copy, "copy", 1, "(a)"},
    {Foreach::fill, "fill", 0, "(s)"},
    {Foreach::neg, "neg", 1, "(-a)"},
    {Foreach::abs, "abs", 1, "fabs(a)"},
    {Foreach::sign, "sign", 1, "(a > 0 ? (REALS)1 : a < 0 ? (REALS)-1 : (REALS)0)"},
    {Foreach::sqrt, "sqrt", 1, "sqrt(a)"},
    {Foreach::rsqrt, "rsqrt", 1, "(1 / sqrt(a))"},
    {Foreach::reciprocal, "reciprocal", 1, "(1 / a)"},
    {Foreach::square, "square", 1, "(a * a)"},
    {Foreach::exp, "exp", 1, "exp_fast(a)"},
    {Foreach::log, "log", 1, "log(a)"},
    {Foreach::sigmoid, "sigmoid", 1, "(1 / (1 + exp_fast(-a)))"},
    {Foreach::tanh, "tanh", 1, "tanh_fast(a)"},
};

const Row& row_of(Foreach op) {
  for (const Row& row : rows_table)
    if (row.op == op) return row;
  throw InvalidArgument("foreach: no such operator");
}

void require(Device& device, DType dtype, const char* op) {
  if (!is_floating(dtype)) not_implemented("_foreach_" + std::string(op), dtype);
  require_dtype(device, dtype, op);
}

Defines types(DType dtype_) {
  Defines defines;
  dtype(defines, "X_DTYPE", dtype_);
  dtype(defines, "C_DTYPE", compute_type(dtype_));
  return defines;
}

}  // namespace

namespace {

// Whether chains have the operator: those of optimizers, because their program would take long to build with all.
bool can_fuse(Foreach op) {
  switch (op) {
    case Foreach::pow_scalar:
    case Foreach::scalar_pow:
    case Foreach::pow:
    case Foreach::exp:
    case Foreach::log:
    case Foreach::sigmoid:
    case Foreach::tanh: return false;
    default: return true;
  }
}

Kernel& single_kernel(Device& device, const ForeachChain::Stage& stage) {
  static KernelSite site("foreach/foreach.cl", "foreach");
  return site.get(device, Variant().add(static_cast<uint64_t>(stage.op), 8).add(stage.dtype), [&] {
    return types(stage.dtype).add("INPUTS", stage.inputs).add("EXPRESSION(a, b, c, s)", row_of(stage.op).expression);
  });
}

// What a stage needs to be issued later without an error.
void prepare(Queue& queue, const ForeachChain::Stage& stage) {
  Device& device = queue.device();
  // Compiled ahead, errors of a program come with the queue's next finish().
  if (!BuildAhead::available(device)) single_kernel(device, stage);
  const size_t bytes = multi_tensor_table_bytes(device, stage.rows, ForeachChain::most_stages);
  TableRing& ring = TableRing::of(queue);
  try {
    ring.reserve(bytes);
  } catch (const OutOfMemory&) {
    device.allocator().empty_cache();
    try {
      ring.reserve(bytes);
    } catch (const OutOfMemory& error) {
      raise_out_of_memory(std::string("_foreach_") + row_of(stage.op).name +
                          ": no memory for its table: " + error.what());
    }
  }
}

void run_single(Queue& queue, const ForeachChain::Stage& stage, size_t& issued) {
  MultiTensor work;
  work.compute = compute_type(stage.dtype);
  work.extras[0] = stage.scalar_address;
  work.rows = stage.rows;
  launch_multi_tensor(queue, work, single_kernel(queue.device(), stage), nullptr, &issued);
}

bool run_fused(Queue& queue, DType dtype, const MultiTensor& work, size_t& issued) {
  static KernelSite site("foreach/foreach.cl", "foreach_chain", BuildTime::beside);
  const auto defines = [&] {
    std::string operators;
    for (const Row& row : rows_table)
      if (can_fuse(row.op))
        operators += "EACH(" + std::to_string(static_cast<int>(row.op)) + ", " + std::to_string(row.inputs) + ", " +
                     row.expression + ") ";
    return types(dtype).add("OPERATORS", operators);
  };
  if (build_failures::reason(&site, dtype, queue.device())) return false;
  Kernel* kernel = nullptr;
  try {
    kernel = &site.get(queue.device(), Variant().add(dtype), defines);
  } catch (const BuildError& error) {
    build_failures::add(&site, "foreach_chain", dtype, queue.device(), error.what());
  }
  if (!kernel || !kernel->ready()) return false;
  launch_multi_tensor(queue, work, *kernel, nullptr, &issued);
  return true;
}

}  // namespace

void foreach (Queue& queue, Foreach op, DType dtype, std::span<const MultiTensorRow> rows, const void* scalar_address) {
  static const bool synchronous = environment::flag("TORCH_OCL_SYNC");
  const Row& row = row_of(op);
  require(queue.device(), dtype, row.name);
  ForeachChain::Stage stage{op, row.inputs, dtype, {rows.begin(), rows.end()}, scalar_address};
  if (!can_fuse(op) || synchronous || queue.watched()) {
    size_t issued = 0;
    return run_single(queue, stage, issued);
  }
  prepare(queue, stage);
  ForeachChain::of(queue, run_single, run_fused).add(std::move(stage));
}

void foreach_norm(Queue& queue, int order, DType dtype, DType y_dtype, std::span<const MultiTensorRow> rows) {
  if (order < 0 || order > 2) throw InvalidArgument("_foreach_norm: order " + std::to_string(order) + " has no kernel");
  require(queue.device(), dtype, "norm");
  require(queue.device(), y_dtype, "norm");
  const DType compute = y_dtype == DType::float64 ? y_dtype : compute_type(dtype);
  const auto defines = [&] {
    Defines d;
    ops::dtype(d, "X_DTYPE", dtype);
    ops::dtype(d, "Y_DTYPE", y_dtype);
    return ops::dtype(d, "C_DTYPE", compute).add("ORDER", order);
  };
  static KernelSite chunk_site("foreach/foreach.cl", "norm_chunk"), row_site("foreach/foreach.cl", "norm_row");
  const uint64_t variant = Variant().add(order, 2).add(dtype).add(y_dtype);
  MultiTensor work;
  work.compute = compute;
  work.rows = rows;
  work.partials = true;
  launch_multi_tensor(queue, work, chunk_site.get(queue.device(), variant, defines),
                      &row_site.get(queue.device(), variant, defines));
}

void foreach_unscale(Queue& queue, DType dtype, std::span<const MultiTensorRow> rows, const void* inverse_scale,
                     void* found_inf) {
  require(queue.device(), dtype, "unscale");
  static KernelSite site("foreach/foreach.cl", "unscale");
  Kernel& kernel = site.get(queue.device(), Variant().add(dtype), [&] { return types(dtype).add("UNSCALE", 1); });
  MultiTensor work;
  work.compute = compute_type(dtype);
  work.extras = {inverse_scale, found_inf};
  work.rows = rows;
  launch_multi_tensor(queue, work, kernel);
}

void update_scale(Queue& queue, void* scale, void* growth_tracker, const void* found_inf, double growth, double backoff,
                  int64_t interval) {
  static KernelSite site("foreach/foreach.cl", "update_scale");
  launch(queue, site.get(queue.device()), Range(1), Range(), scale, growth_tracker, found_inf,
         static_cast<float>(growth), static_cast<float>(backoff), static_cast<int32_t>(interval));
}

}  // namespace ocl::ops
