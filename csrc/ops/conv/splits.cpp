#include "ops/conv/splits.h"

#include "ops/core/lanes.h"

namespace ocl::ops {

int64_t played_end(const Tasks& tasks, int64_t cores, bool channels_slow) {
  struct Core {
    int begin, end;
    int64_t time;
  };
  Core all[most_played_cores];
  const int count = static_cast<int>(tasks.count()), pixel_tasks = static_cast<int>(tasks.pixel_tasks),
            channel_tasks = static_cast<int>(tasks.channel_tasks), units = static_cast<int>(cores);
  for (int i = 0; i < units; ++i) all[i] = {count * i / units, count * (i + 1) / units, 0};
  const auto cost = [&](int i) {
    i %= pixel_tasks * channel_tasks;
    return channels_slow ? tasks.cost_of(i % pixel_tasks, i / pixel_tasks)
                         : tasks.cost_of(i / channel_tasks, i % channel_tasks);
  };
  int64_t last = 0;
  for (int i = 0; i < count; ++i) {
    Core& free = *std::min_element(all, all + cores, [](const Core& a, const Core& b) { return a.time < b.time; });
    Core& longest = *std::max_element(all, all + cores,
                                      [](const Core& a, const Core& b) { return a.end - a.begin < b.end - b.begin; });
    free.time += cost(free.begin < free.end ? free.begin++ : --longest.end);
    last = std::max(last, free.time);
  }
  return last;
}

int64_t estimated_end(const Tasks& tasks, int64_t cores) {
  const int64_t pixels[] = {tasks.pixel_tasks - 1, 1}, channels[] = {tasks.channel_tasks - 1, 1};
  struct Kind {
    int64_t cost, count;
  } kinds[4];
  for (int i = 0; i < 4; ++i) kinds[i] = {tasks.cost[i / 2][i % 2], pixels[i / 2] * channels[i % 2] * tasks.groups};
  std::sort(kinds, kinds + 4, [](const Kind& a, const Kind& b) { return a.cost > b.cost; });
  int64_t end = 0, before = 0;
  for (const Kind& kind : kinds) {
    end += kind.cost * (ceil_div(before + kind.count, cores) - ceil_div(before, cores));
    before += kind.count;
  }
  return end;
}

}  // namespace ocl::ops
