// How work is cut into tasks for the cores of a CPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ocl::ops {

// Up to how many cores a schedule is played through; that takes time in proportion to cores * tasks, and tasks grow
// with the cores. With more of them the order of tasks hardly matters: there is always a core that is free soon.
constexpr int64_t most_played_cores = 4;

// The tasks of a launch: every pixel task meets every channel task in every group; the last one of each may be smaller.
struct Tasks {
  int64_t pixel_tasks, channel_tasks, groups;
  int64_t cost[2][2];  // of a task: [last pixel task][last channel task]

  int64_t count() const { return pixel_tasks * channel_tasks * groups; }
  int64_t cost_of(int64_t pixel_task, int64_t channel_task) const {
    return cost[pixel_task + 1 == pixel_tasks][channel_task + 1 == channel_tasks];
  }
};

// When the last task ends. Every core has a contiguous share, then takes from the end of the longest one left. At most
// most_played_cores.
int64_t played_end(const Tasks& tasks, int64_t cores, bool channels_slow);
// The same in closed form: in rounds of one task for each core, large tasks first, a round takes as long as its
// largest task.
int64_t estimated_end(const Tasks& tasks, int64_t cores);

// Of ways to cut the same work, with members `end` and `work`: the one of the least work among those that end at most a
// tenth later than the earliest. What cores need not do leaves caches, memory and the clock to others.
template <class Split>
const Split& thriftiest(const std::vector<Split>& splits) {
  int64_t earliest = splits.front().end;
  for (const Split& split : splits) earliest = std::min(earliest, split.end);
  const Split* best = nullptr;
  for (const Split& split : splits)
    if (split.end <= earliest + earliest / 10 && (!best || split.work < best->work)) best = &split;
  return *best;
}

}  // namespace ocl::ops
