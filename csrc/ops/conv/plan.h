// Inside the convolution family: plans in short.
#pragma once

#include "ops/conv/conv.h"

namespace ocl::ops {

inline ConvPlan refused(const char* reason) {
  ConvPlan plan;
  plan.refusal = reason;
  return plan;
}

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
