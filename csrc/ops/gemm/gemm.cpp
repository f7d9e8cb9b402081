#include "ops/gemm/gemm.h"

#include "base/environment.h"
#include "ops/core/build_failures.h"
#include "ops/core/plan_table.h"
#include "ops/core/tuning.h"
#include "ops/gemm/algorithms.h"

#include <optional>
#include <stdexcept>
#include <utility>

namespace ocl::ops {

std::span<const GemmAlgorithm> gemm_algorithms() {
  static const GemmAlgorithm table[] = {
      gemm_detail::columns,      gemm_detail::skinny, gemm_detail::bfloat16_pairs,
      gemm_detail::deep_panel,   gemm_detail::panel,
#if TORCH_OCL_CLBLAST
      gemm_detail::clblast,
#endif
      gemm_detail::tensor_cores, gemm_detail::simt,   gemm_detail::reference,
  };
  return table;
}

namespace {

// The algorithm named by TORCH_OCL_GEMM.
const std::optional<std::string>& forced() {
  static const auto name = [] {
    std::optional<std::string> value = environment::get("TORCH_OCL_GEMM");
    if (!value || *value == "auto") return std::optional<std::string>();
    std::string list = "auto";
    for (const GemmAlgorithm& algorithm : gemm_algorithms()) {
      if (*value == algorithm.name) return value;
      list.append(", ").append(algorithm.name);
    }
    environment::reject("TORCH_OCL_GEMM", *value, list, "auto is used");
    return std::optional<std::string>();
  }();
  return name;
}

// The algorithm's own plan, or a refusal because its program was not built.
GemmPlan plan_of(const GemmAlgorithm& algorithm, const GemmProblem& problem, const PlanTarget& target) {
  const char* unbuilt = target.unbuilt(&algorithm, problem.dtype);
  return unbuilt ? gemm_detail::refused(unbuilt) : algorithm.plan(problem, target);
}

}  // namespace

GemmChoice choose_gemm(const GemmProblem& problem, const PlanTarget& target) {
  for (const GemmAlgorithm& algorithm : gemm_algorithms()) {
    GemmPlan plan = plan_of(algorithm, problem, target);
    if (!plan.refusal && !plan.declines) return {&algorithm, std::move(plan)};
  }
  const GemmAlgorithm& last = gemm_algorithms().back();
  return {&last, last.plan(problem, target)};
}

namespace {

void run(const GemmPlan& plan, Queue& queue, const GemmProblem& problem, const GemmOperands& operands) {
  Workspace workspace(queue, plan.workspace);
  plan.run(queue, problem, operands, workspace.data());
}

// Whether the precision of the problem's products is a setting.
bool rounds_to_tf32(const GemmProblem& p, const Device& device) {
  return p.dtype == DType::float32 && !device.cpu_style() && allows_tf32(p.rounding);
}

// Sizes, which way the operands lie and what is added. Row pitches are left out: they hardly matter.
tuning::Problem tuning_problem(const GemmProblem& p, const Device& device) {
  auto order = [](const MatrixStrides& s) -> int64_t { return (s[0] != 0) << 2 | (s[2] == 1) << 1 | (s[1] == 1); };
  tuning::Problem key("gemm", p.dtype);
  key.add(p.batch).add(p.m).add(p.n).add(p.k).add(order(p.a)).add(order(p.b)).add(order(p.c));
  return key.add(p.beta != 0.0).add(static_cast<int64_t>(p.activation)).add(rounds_to_tf32(p, device));
}

// Into a matrix of its own, because c may also be what is added.
std::string_view measure(Queue& queue, const tuning::Problem& key, const GemmAlgorithm& guess,
                         const GemmProblem& problem, const GemmOperands& operands, const PlanTarget& target) {
  const int64_t numel = problem.batch * problem.m * problem.n;
  Workspace scratch(queue, static_cast<size_t>(numel) * size_of(problem.dtype));
  GemmProblem p = problem;
  p.c = GemmProblem::row_major(p.m, p.n);
  GemmOperands o = operands;
  o.c = scratch.data();
  std::vector<tuning::Candidate> candidates;
  auto add = [&](const GemmAlgorithm& algorithm, GemmPlan plan) {
    candidates.push_back({algorithm.name, [&queue, &p, &o, plan = std::move(plan)] { run(plan, queue, p, o); }});
  };
  add(guess, guess.plan(p, target));
  for (const GemmAlgorithm& algorithm : gemm_algorithms().first(gemm_algorithms().size() - 1)) {
    GemmPlan plan = plan_of(algorithm, p, target);
    if (&algorithm != &guess && !plan.refusal) add(algorithm, std::move(plan));
  }
  return tuning::measure(queue, key, candidates, {o.c, p.dtype, numel});
}

// The algorithm of this name, where it takes the problem.
std::optional<GemmChoice> find(std::string_view name, const GemmProblem& problem, const PlanTarget& target) {
  for (const GemmAlgorithm& algorithm : gemm_algorithms())
    if (algorithm.name == name)
      if (GemmPlan plan = plan_of(algorithm, problem, target); !plan.refusal)
        return GemmChoice{&algorithm, std::move(plan)};
  return std::nullopt;
}

GemmChoice choose(Queue& queue, const GemmProblem& problem, const GemmOperands& operands) {
  const Device& device = queue.device();
  const PlanTarget target(device);
  if (forced()) {
    auto found = find(*forced(), problem, target);
    return found ? std::move(*found) : choose_gemm(problem, target);
  }
  if (!gemm_detail::is_real_floating(problem.dtype) || !tuning::active(device)) return choose_gemm(problem, target);
  const tuning::Problem key = tuning_problem(problem, device);
  std::string_view name = tuning::choice(device, key);
  if (name.empty() && tuning::measuring())
    name = measure(queue, key, *choose_gemm(problem, target).algorithm, problem, operands, target);
  auto known = name.empty() ? std::nullopt : find(name, problem, target);
  return known ? std::move(*known) : choose_gemm(problem, target);
}

// What a plan is made from: no values of alpha and beta, nothing of d.
struct GemmKey {
  const Device* device;
  DType dtype;
  Activation activation;
  bool adds, tf32;
  int64_t batch, m, n, k;
  MatrixStrides a, b, c;

  bool operator==(const GemmKey&) const = default;
  size_t hash() const {
    return Hasher()
        .add(reinterpret_cast<uintptr_t>(device) ^ static_cast<uint64_t>(dtype) << 56 ^
             static_cast<uint64_t>(activation) << 52 ^ uint64_t{adds} << 50 ^ uint64_t{tf32} << 49)
        .add({batch, m, n})
        .add(static_cast<uint64_t>(k))
        .add(a)
        .add(b)
        .add(c)
        .value();
  }
};

GemmKey key_of(const GemmProblem& p, const Device& device) {
  return {&device, p.dtype, p.activation, p.beta != 0.0, rounds_to_tf32(p, device), p.batch, p.m, p.n, p.k,
          p.a,     p.b,     p.c};
}

PlanTable<GemmKey, GemmChoice>& plans() {
  static auto* table = new PlanTable<GemmKey, GemmChoice>;
  return *table;
}

}  // namespace

void canonicalize(GemmProblem& p, GemmOperands& operands) {
  // Rows of c as long as possible: a column vector is a row vector of the transposed problem.
  const bool column_is_unit = p.c[2] == 1 || p.n == 1, row_is_unit = p.c[1] == 1 || p.m == 1;
  if ((!column_is_unit && row_is_unit) || (p.n == 1 && p.m > 1 && p.c[1] == 1)) {
    std::swap(p.m, p.n);
    std::swap(p.a, p.b);
    std::swap(operands.a, operands.b);
    for (MatrixStrides* strides : {&p.a, &p.b, &p.c, &p.d}) std::swap((*strides)[1], (*strides)[2]);
  }
  if (p.n == 1) p.c[2] = 1;
  if (p.n == 1) p.d[2] = 1;
  // A dimension of size 1 takes the stride that makes the operand look contiguous along the other one.
  auto settle = [](MatrixStrides& s, int64_t rows, int64_t columns) {
    if (columns == 1) s[2] = s[1] == 1 ? rows : 1;
    if (rows == 1) s[1] = s[2] == 1 ? columns : 1;
  };
  settle(p.a, p.m, p.k);
  settle(p.b, p.k, p.n);
}

void gemm(Queue& queue, const GemmProblem& problem, const GemmOperands& operands) {
  if (problem.batch < 0 || problem.m < 0 || problem.n < 0 || problem.k < 0)
    throw InvalidArgument("gemm: negative size");
  if (problem.activation != Activation::none && !gemm_detail::is_real_floating(problem.dtype))
    throw InvalidArgument("gemm: an activation needs a real floating type");
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return;
  require_dtype(queue.device(), problem.dtype, "gemm");
  GemmProblem p = problem;
  GemmOperands o = operands;
  canonicalize(p, o);
  for (;;) {
    const auto known = plans().get(key_of(p, queue.device()), [&] { return choose(queue, p, o); });
    const uint64_t before = queue.commands();
    try {
      return run(known->plan, queue, p, o);
    } catch (const BuildError& error) {
      const bool added_to = p.beta != 0.0 && queue.commands() != before;  // what is added may be c, changed by now
      if (known->algorithm == &gemm_algorithms().back() || added_to) throw;
      build_failures::add(known->algorithm, known->algorithm->name, p.dtype, queue.device(), error.what());
    }
  }
}

}  // namespace ocl::ops
