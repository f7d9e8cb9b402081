// Products in which one matrix is much larger than the other two (kernels_cl/gemm/skinny.cpu.cl): fully connected
// layers of small batches, matrix times vector, dot products.
#include "opencl/capabilities/prefetch.h"
#include "ops/gemm/algorithms.h"
#include "params/gemm.h"

#include <algorithm>

namespace ocl::ops::gemm_detail {
namespace {

constexpr int64_t max_small = params::skinny_small, outer_rows = params::skinny_outer_rows;
constexpr int64_t dot_columns = params::skinny_columns;
constexpr int64_t rows_tile = 16384;  // ROWS_TILE of 16 lanes

using params::SkinnyPlan;

enum class Form { none, dot, rows, outer };

// Few rows remain after this; true when the operands changed places.
bool flip(const GemmProblem& p) { return has_few_columns(p, max_small); }

Form form_of(const GemmProblem& p) {
  if (p.k <= max_small && p.m > max_small && p.n > max_small && p.b[2] == 1 && p.c[2] == 1) return Form::outer;
  const GemmProblem q = flip(p) ? transpose(p) : p;
  if (q.m > max_small) return Form::none;
  if (q.a[2] == 1 && q.b[1] == 1) return Form::dot;
  if (q.b[2] == 1) return Form::rows;
  return Form::none;
}

void slice(SkinnyPlan& plan, const GemmProblem& p, int64_t slices, int64_t step) {
  plan.slice = round_up(ceil_div(p.k, slices), step);
  plan.slices = static_cast<int32_t>(ceil_div(p.k, plan.slice));
}

SkinnyPlan plan_of(const GemmProblem& p, Form form, const PlanTarget& target) {
  const int64_t units = target.compute_units, lanes = p.dtype == DType::float64 ? 8 : 16;
  SkinnyPlan plan{p.k, p.batch, 1, 0, 0, 0};
  if (form == Form::outer) {
    plan.columns = static_cast<int32_t>(std::min<int64_t>(round_up(p.n, 4 * lanes), 1 << 20));
    return plan;
  }
  const int64_t rows = round_up(p.m, 4);
  if (form == Form::dot) {
    // About 8 tasks per unit when there are enough columns; otherwise k is cut.
    // One row takes little time for each column.
    const int64_t step = p.m == 1 ? 4 : dot_columns;
    plan.columns = static_cast<int32_t>(
        std::clamp<int64_t>(round_up(ceil_div(p.n * p.batch, 8 * units), step), step, p.m == 1 ? 256 : 30));
    const int64_t tasks = ceil_div(p.n, plan.columns) * p.batch;
    constexpr int64_t least_slice = 8192;
    if (tasks < 2 * units && p.k >= 2 * least_slice)
      slice(plan, p, std::min(ceil_div(4 * units, tasks), p.k / least_slice), 1024);
    return plan;
  }
  // Rows of b are read in long runs: as many columns as the tile of sums holds, and slices of k to make tasks.
  const int64_t step = 4 * lanes, most = rows_tile * lanes / 16 / rows / step * step;
  int64_t columns = std::min(round_up(p.n, step), most);
  const int64_t tasks = ceil_div(p.n, columns) * p.batch;
  constexpr int64_t least_slice = 256;
  if (tasks < 2 * units && p.k >= 2 * least_slice) {
    slice(plan, p, std::min(ceil_div(4 * units, tasks), p.k / least_slice), 16);
  } else if (tasks < 4 * units) {
    columns = std::min(columns, std::max(step, round_up(ceil_div(p.n * p.batch, 4 * units), step)));
  }
  plan.columns = static_cast<int32_t>(columns);
  return plan;
}

const char* refuses(const GemmProblem& p, Form form, const PlanTarget& target) {
  if (!target.cpu_style) return "needs CPU kernels";
  if (!is_real_floating(p.dtype)) return "real floating types only";
  if (target.local_memory < (96 << 10)) return "needs 96 KiB of local memory";
  if (form == Form::none) return "no dimension is small, or the strides do not fit";
  return nullptr;
}

constexpr int64_t least_outer_bytes = 6 << 20, least_streamed_bytes = 8 << 20;  // of c

int64_t bytes_of_c(const GemmProblem& p) { return p.m * p.n * static_cast<int64_t>(size_of(p.dtype)); }

// Measured on two CPU runtimes (torch.backends.ocl.benchmark over sizes of fully connected layers and attention heads).
const char* declines(const GemmProblem& p, Form form, const PlanTarget& target) {
  const int64_t small = std::min(p.m, p.n), large = std::max(p.m, p.n);
  if (form != Form::outer && small >= 16 && multiplies_pairs(p, target)) return "pairs of bfloat16 multiply faster";
  if (form == Form::outer && (bytes_of_c(p) < least_outer_bytes || p.n < 512))
    return "packed panels are quicker while the result stays in the caches";
  if (form == Form::dot && small >= 16 && p.k <= 256) return "sums are too short";
  if (form == Form::rows && small >= 8 && large <= 32 && p.k <= 2048) return "all matrices are little";
  // With 16 registers packed panels multiply faster; reading a matrix that is larger than the caches only once makes up
  // for it.
  const bool narrow = target.vector_floats < 16;
  if (form == Form::rows && narrow && small >= 16 &&
      p.k * large * static_cast<int64_t>(size_of(p.dtype)) < small * small * (int64_t{32} << 10))
    return "packed panels are quicker while the large matrix stays in the caches";
  return nullptr;
}

// c is written past the caches when it exceeds what they could keep and every vector of it is aligned.
bool streams(const GemmProblem& p, const void* c) {
  const int64_t per_vector = 64 / static_cast<int64_t>(size_of(p.dtype));
  return p.dtype != DType::float16 && p.beta == 0.0 && p.activation == Activation::none &&
         bytes_of_c(p) >= least_streamed_bytes && p.c[0] % per_vector == 0 && p.c[1] % per_vector == 0 &&
         reinterpret_cast<uintptr_t>(c) % 64 == 0;
}

template <class T>
void run_as(Queue& queue, const GemmProblem& p, const GemmOperands& o, void* partial, Form form, SkinnyPlan plan) {
  static KernelSite dot("gemm/skinny.cpu.cl", "gemm_dot"), rows("gemm/skinny.cpu.cl", "gemm_rows"),
      outer("gemm/skinny.cpu.cl", "gemm_outer"), finish("gemm/skinny.cpu.cl", "gemm_finish");
  if (form == Form::outer) plan.streaming = streams(p, o.c);
  auto launch_at = [&](KernelSite& site, const Range& grid) {
    Kernel& kernel = site.get(queue.device(), Variant().add(p.dtype), [&] {
      Defines defines;
      dtype(defines, "DTYPE", p.dtype);
      add_prefetch_define(defines, queue.device());
      return defines.add("WIDE", sizeof(T) == 8)
          .add("SIZEOF_STORAGE", static_cast<int64_t>(size_of(p.dtype)))
          .add("IS_BFLOAT16", p.dtype == DType::bfloat16);
    });
    launch(queue, kernel, grid, Range(1, 1, 1), o.a, o.b, o.c, o.d ? o.d : o.c, partial ? partial : o.c,
           gemm_arguments(p), plan, static_cast<T>(p.alpha.real()), static_cast<T>(p.beta.real()));
  };
  if (form == Form::outer)
    return launch_at(outer, Range(ceil_div(p.m, outer_rows), ceil_div(p.n, plan.columns), p.batch));
  launch_at(form == Form::dot ? dot : rows, Range(ceil_div(p.n, plan.columns), plan.slices, p.batch));
  if (plan.slices > 1) launch_at(finish, Range(ceil_div(p.n, plan.columns), p.m, p.batch));
}

void run(Queue& queue, const GemmProblem& problem, const GemmOperands& operands, void* partial, Form form,
         const SkinnyPlan& plan) {
  GemmProblem p = problem;
  GemmOperands o = operands;
  if (form != Form::outer && flip(p)) {
    p = transpose(p);
    std::swap(o.a, o.b);
  }
  if (p.dtype == DType::float64) return run_as<double>(queue, p, o, partial, form, plan);
  run_as<float>(queue, p, o, partial, form, plan);
}

GemmPlan plan_skinny(const GemmProblem& p, const PlanTarget& target) {
  const Form form = form_of(p);
  if (const char* reason = refuses(p, form, target)) return refused(reason);
  const SkinnyPlan plan = plan_of(flip(p) && form != Form::outer ? transpose(p) : p, form, target);
  const size_t sums = plan.slices == 1 ? 0 : static_cast<size_t>(plan.slices * p.batch * p.m * p.n);
  return {nullptr, declines(p, form, target), sums * size_of(compute_type(p.dtype)),
          [form, plan](Queue& queue, const GemmProblem& problem, const GemmOperands& operands, void* partial) {
            run(queue, problem, operands, partial, form, plan);
          }};
}

}  // namespace

const GemmAlgorithm skinny{"skinny", plan_skinny};

}  // namespace ocl::ops::gemm_detail
