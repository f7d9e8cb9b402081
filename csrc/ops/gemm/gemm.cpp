#include "ops/gemm/gemm.h"

#include "base/environment.h"
#include "ops/core/build_failures.h"
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
    auto value = environment::get("TORCH_OCL_GEMM");
    return value && *value != "auto" ? value : std::nullopt;
  }();
  return name;
}

// The algorithm's own, or that its program was not built.
const char* refusal(const GemmAlgorithm& algorithm, const GemmProblem& problem, const Device& device) {
  const char* unbuilt = build_failures::reason(&algorithm, problem.dtype, device);
  return unbuilt ? unbuilt : algorithm.refuses(problem, device);
}

}  // namespace

const GemmAlgorithm& choose_gemm(const GemmProblem& problem, const Device& device) {
  const auto algorithms = gemm_algorithms();
  if (forced())
    for (const GemmAlgorithm& algorithm : algorithms)
      if (*forced() == algorithm.name && !refusal(algorithm, problem, device)) return algorithm;
  for (const GemmAlgorithm& algorithm : algorithms)
    if (!refusal(algorithm, problem, device) && !algorithm.declines(problem, device)) return algorithm;
  return algorithms.back();
}

namespace {

void run(const GemmAlgorithm& algorithm, Queue& queue, const GemmProblem& problem, const GemmOperands& operands) {
  Workspace workspace(queue, algorithm.workspace(problem, queue.device()));
  algorithm.run(queue, problem, operands, workspace.data());
}

// Sizes, which way the operands lie and what is added. Row pitches are left out: they hardly matter.
tuning::Problem tuning_problem(const GemmProblem& p) {
  auto order = [](const MatrixStrides& s) -> int64_t { return (s[0] != 0) << 2 | (s[2] == 1) << 1 | (s[1] == 1); };
  tuning::Problem key("gemm", p.dtype);
  key.add(p.batch).add(p.m).add(p.n).add(p.k).add(order(p.a)).add(order(p.b)).add(order(p.c));
  return key.add(p.beta != 0.0).add(static_cast<int64_t>(p.activation));
}

// Into a matrix of its own, because c may also be what is added.
std::string_view measure(Queue& queue, const tuning::Problem& key, const GemmAlgorithm& guess,
                         const GemmProblem& problem, const GemmOperands& operands) {
  const int64_t numel = problem.batch * problem.m * problem.n;
  Workspace scratch(queue, static_cast<size_t>(numel) * size_of(problem.dtype));
  GemmProblem p = problem;
  p.c = GemmProblem::row_major(p.m, p.n);
  GemmOperands o = operands;
  o.c = scratch.data();
  std::vector<tuning::Candidate> candidates;
  auto add = [&](const GemmAlgorithm& algorithm) {
    candidates.push_back({algorithm.name, [&] { run(algorithm, queue, p, o); }});
  };
  add(guess);
  for (const GemmAlgorithm& algorithm : gemm_algorithms().first(gemm_algorithms().size() - 1))
    if (&algorithm != &guess && !refusal(algorithm, p, queue.device())) add(algorithm);
  return tuning::measure(queue, key, candidates, {o.c, p.dtype, numel});
}

const GemmAlgorithm& choose_tuned(Queue& queue, const GemmProblem& problem, const GemmOperands& operands) {
  const Device& device = queue.device();
  const GemmAlgorithm& guess = choose_gemm(problem, device);
  if (!gemm_detail::is_real_floating(problem.dtype) || !tuning::active(device)) return guess;
  const tuning::Problem key = tuning_problem(problem);
  std::string_view name = tuning::choice(device, key);
  if (name.empty() && tuning::measuring()) name = measure(queue, key, guess, problem, operands);
  for (const GemmAlgorithm& algorithm : gemm_algorithms())
    if (algorithm.name == name && !refusal(algorithm, problem, device)) return algorithm;
  return guess;
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
    throw std::invalid_argument("gemm: negative size");
  if (problem.activation != Activation::none && !gemm_detail::is_real_floating(problem.dtype))
    throw std::invalid_argument("gemm: an activation needs a real floating type");
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return;
  require_dtype(queue.device(), problem.dtype, "gemm");
  GemmProblem p = problem;
  GemmOperands o = operands;
  canonicalize(p, o);
  for (;;) {
    const GemmAlgorithm& algorithm = forced() ? choose_gemm(p, queue.device()) : choose_tuned(queue, p, o);
    const uint64_t before = queue.commands();
    try {
      return run(algorithm, queue, p, o);
    } catch (const BuildError& error) {
      const bool added_to = p.beta != 0.0 && queue.commands() != before;  // what is added may be c, changed by now
      if (&algorithm == &gemm_algorithms().back() || added_to) throw;
      build_failures::add(&algorithm, algorithm.name, p.dtype, queue.device(), error.what());
    }
  }
}

}  // namespace ocl::ops
