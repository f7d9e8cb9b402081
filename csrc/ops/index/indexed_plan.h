// The pure planner of indexed operations. No device needed.
#pragma once

#include "ops/index/indexed.h"
#include "params/index.h"

namespace ocl::ops {

using params::IndexedWalk;
static_assert(walk_dims == params::walk_dims);

constexpr IndexedWalk walk_of_one() {
  IndexedWalk walk{};
  walk.outer = walk.conflict = walk.inner = walk.limit = 1;
  return walk;
}

struct IndexedPlan {
  IndexedWalk walk = walk_of_one();
  bool inner_is_free = true;  // the inner dimension may be cut into tasks
  bool has_conflicts() const { return walk.conflict > 1 || !inner_is_free; }
};

// Drops and merges dimensions, orders them by the destination's strides and picks the inner loop.
// Errors: InvalidArgument when more than walk_dims dimensions remain.
IndexedPlan plan_indexed(const IndexedOperands& operands);

}  // namespace ocl::ops
