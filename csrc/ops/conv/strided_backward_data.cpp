#include "ops/conv/strided_backward_data.h"

#include "opencl/capabilities/prefetch.h"
#include "ops/conv/plan.h"
#include "params/conv.h"

#include <algorithm>

namespace ocl::ops {

namespace {

constexpr char file[] = "conv/strided_backward_data.cpu.cl";

using params::Layout;
constexpr int64_t piece_bytes = 16, strip = 2048, filter_rows = 16, filter_columns = 64;
constexpr int64_t most_panels = 112;          // of a task
constexpr int64_t cached_floats = 256 << 10;  // 1 MiB

struct Plan {
  bool planes = true;           // or panels
  int64_t images = 1;           // per part of the batch
  int64_t rows = 0, pitch = 0;  // of the grid of positions
  int64_t plane = 0;            // floats of an output channel (planes)
  int64_t panels = 0, panels_per_task = 0, channels_per_task = 0;
  Layout layout{};
  int64_t view_floats = 0, filter_floats = 0;  // packed

  size_t workspace() const { return static_cast<size_t>(view_floats + filter_floats) * 4; }
};

int64_t panels_of(const Plan& plan, int64_t images) { return ceil_div(images * plan.rows * plan.pitch, 16); }

Plan make_plan(const ConvProblem& p, const PlanTarget& target) {
  Plan plan;
  plan.planes = p.output[2] >= 24;  // below, the zero column and row cost more than storing the views
  plan.rows = p.output[1] + plan.planes;
  plan.pitch = p.output[2] + plan.planes;
  // A part of the batch stays in the last-level cache and within 32-bit indices of dx.
  const int64_t image_floats = plan.rows * plan.pitch * p.out_channels * (plan.planes ? 1 : 4);
  const int64_t wanted = std::min((int64_t{32} << 20) / 4 / std::max<int64_t>(1, image_floats),
                                  (int64_t{1} << 30) / (p.in_channels * p.in_pixels()));
  const int64_t parts = ceil_div(p.batch, std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, p.batch)));
  plan.images = parts ? ceil_div(p.batch, parts) : 0;
  plan.panels = panels_of(plan, plan.images);
  // Planes: the views of the last position and of a whole panel stay inside; an odd number of cache lines apart.
  plan.plane = (ceil_div(plan.panels * 16 + plan.pitch + 32, 16) | 1) * 16;
  if (plan.planes) {
    const int32_t pitch = static_cast<int32_t>(plan.pitch);
    plan.layout = {16, plan.plane, 1, pitch, pitch + 1, 0};
    plan.view_floats = p.out_channels * plan.plane;
  } else {
    plan.layout = {p.out_channels * 64, 64, 16, 32, 48, 0};
    plan.view_floats = plan.panels * p.out_channels * 64;
  }
  plan.view_floats = round_up(plan.view_floats, 16);
  plan.filter_floats = p.w_numel();
  // Tasks for every unit; what panels hold stays in the second-level cache from one group of 4 input channels to the
  // next.
  const int64_t wanted_tasks = int64_t{8} * target.compute_units, groups = std::max<int64_t>(1, p.in_channels / 4);
  const int64_t cached =
      plan.planes ? most_panels : std::clamp<int64_t>(cached_floats / (p.out_channels * 64), 1, most_panels);
  const int64_t fewest_groups = std::min<int64_t>(p.in_channels >= 128 ? 4 : 2, groups);
  const int64_t channel_groups =
      std::clamp<int64_t>(ceil_div(wanted_tasks, ceil_div(plan.panels, cached)), fewest_groups, groups);
  plan.channels_per_task = round_up(ceil_div(p.in_channels, channel_groups), 4);
  plan.panels_per_task = std::clamp<int64_t>(
      ceil_div(plan.panels, std::max<int64_t>(1, ceil_div(wanted_tasks, channel_groups))), 1, cached);
  return plan;
}

const char* refuse(const ConvProblem& p, const PlanTarget& target) {
  if (!target.cpu_style) return "written for CPU devices";
  if (p.channels_last) return "needs the contiguous memory format";
  if (p.dtype != DType::float32 && !is_half(p.dtype)) return "computes in float32";
  if (p.groups != 1) return "needs one group";
  if (p.kernel != std::array<int64_t, 3>{1, 3, 3} || p.stride[1] != 2 || p.stride[2] != 2 ||
      p.padding != std::array<int64_t, 3>{0, 1, 1} || p.input[0] != 1)
    return "needs a 3x3 kernel, stride 2 and padding 1";
  if (p.dilation[1] != 1 || p.dilation[2] != 1) return "needs dilation 1";
  if (p.in_channels % 4 != 0) return "needs input channels in multiples of 4";
  if (p.in_channels * p.in_pixels() > INT32_MAX / 2) return "image too large";
  const uint64_t packing = 34 << 10;  // pack_panels
  if (std::max<uint64_t>(packing, most_panels * (16 * piece_bytes + 4) + 1024) > target.local_memory)
    return "too little local memory";
  return nullptr;
}

Kernel& kernel(KernelSite& site, Queue& queue, DType type) {
  return site.get(queue.device(), static_cast<uint64_t>(type), [&] {
    Defines defines;
    dtype(defines, "DTYPE", type);
    return add_prefetch_define(defines, queue.device());
  });
}

void run(Queue& queue, const Plan& plan, const ConvProblem& p, const ConvOperands& operands, void* workspace) {
  static KernelSite planes_site(file, "pack_planes"), panels_site(file, "pack_panels"),
      filters_site(file, "pack_filters"), multiply_site(file, "multiply_parities");
  const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
  const int64_t bytes = static_cast<int64_t>(size_of(p.dtype));
  float* filters = static_cast<float*>(workspace) + plan.view_floats;
  const Range filter_blocks(ceil_div(p.out_channels, filter_rows), ceil_div(p.in_channels, filter_columns));
  launch(queue, kernel(filters_site, queue, p.dtype), filter_blocks, Range(1, 1), operands.w, filters,
         narrow(p.out_channels), narrow(p.in_channels));
  for (int64_t image = 0; image < p.batch; image += plan.images) {
    const int64_t images = std::min(plan.images, p.batch - image), panels = panels_of(plan, images);
    const char* dy = static_cast<const char*>(operands.y) + image * p.out_channels * p.out_pixels() * bytes;
    char* dx = static_cast<char*>(operands.x) + image * p.in_channels * p.in_pixels() * bytes;
    if (plan.planes)
      launch(queue, kernel(planes_site, queue, p.dtype), Range(p.out_channels, images), Range(1, 1), dy, workspace,
             narrow(p.output[1]), narrow(p.output[2]), plan.plane);
    else
      launch(queue, kernel(panels_site, queue, p.dtype), Range(p.out_channels, ceil_div(panels * 16, strip)),
             Range(1, 1), dy, workspace, narrow(p.output[1]), narrow(p.output[2]), narrow(images * p.out_pixels()));
    const Range tasks(ceil_div(panels, plan.panels_per_task), ceil_div(p.in_channels, plan.channels_per_task));
    launch(queue, kernel(multiply_site, queue, p.dtype), tasks, Range(1, 1), workspace, filters, dx, plan.layout,
           narrow(images), narrow(plan.rows), narrow(plan.pitch), narrow(p.output[1]), narrow(p.output[2]),
           narrow(p.input[1]), narrow(p.input[2]), narrow(p.in_channels), narrow(p.out_channels), narrow(panels),
           narrow(plan.panels_per_task), narrow(plan.channels_per_task),
           LocalMemory{static_cast<size_t>(plan.panels_per_task * 16 * piece_bytes)},
           LocalMemory{static_cast<size_t>(plan.panels_per_task * 4)});
  }
}

ConvPlan plan_strided(const ConvProblem& p, const PlanTarget& target) {
  if (const char* reason = refuse(p, target)) return refused(reason);
  const Plan plan = make_plan(p, target);
  return {nullptr, nullptr, plan.workspace(),
          [plan](Queue& queue, const ConvProblem& problem, const ConvOperands& operands, void* workspace) {
            run(queue, plan, problem, operands, workspace);
          }};
}

constexpr ConvAlgorithm algorithms[] = {{"strided_backward_data", ConvPass::backward_data, plan_strided}};

}  // namespace

std::span<const ConvAlgorithm> strided_backward_data_algorithms() { return algorithms; }

}  // namespace ocl::ops
