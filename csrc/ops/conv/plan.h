// Inside the convolution family: plans in short, and what is done to problems and results around them.
#pragma once

#include "ops/conv/conv.h"
#include "params/conv.h"

namespace ocl::ops {

inline ConvPlan refused(const char* reason) {
  ConvPlan plan;
  plan.refusal = reason;
  return plan;
}

// A filter as large as its unpadded input sees it once: its taps are channels of a single pixel, and the convolution a
// product of matrices. Other problems stay as they are.
ConvProblem taps_as_channels(ConvProblem p);

// The limits as a kernel argument.
inline params::Limits passed(const ConvLimits& limits) { return {limits.low, limits.high}; }
// Cuts results of a forward pass off at the problem's limits.
void limit_results(Queue& queue, const ConvProblem& p, void* results);

namespace conv_detail {

inline const char* never(const ConvProblem&) { return nullptr; }
inline size_t no_bytes(const ConvProblem&) { return 0; }

}  // namespace conv_detail

// The plan of an algorithm that has nothing to keep but the problem: refuse(problem, target), run as in ConvPlan, then
// workspace bytes and the reason to decline, both of the problem alone.
template <auto refuse, auto run, auto bytes = conv_detail::no_bytes, auto decline = conv_detail::never>
ConvPlan plain_plan(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuse(p, target)) return refused(reason);
  return {nullptr, decline(p), bytes(p), run};
}

}  // namespace ocl::ops
