#include "ops/conv/separable.h"

#include "ops/conv/separable_plan.h"
#include "ops/core/plan_table.h"
#include "params/separable.h"

#include <algorithm>
#include <bit>
#include <string>

namespace ocl::ops {
namespace {

constexpr int64_t lanes = params::separable_lanes;

static_assert(lanes == separable_panel);
static_assert(static_cast<int>(ConvActivation::Kind::sigmoid) == params::activation_sigmoid);

params::Activation passed(const ConvActivation& a) { return {a.low, a.high, static_cast<int32_t>(a.kind)}; }

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

// The numbers that a cut is made from.
struct CutKey {
  const Device* device;
  std::array<int64_t, 14> numbers;
  bool operator==(const CutKey&) const = default;
  size_t hash() const {
    Hasher hasher;
    hasher.add(std::bit_cast<uintptr_t>(device));
    for (const int64_t number : numbers) hasher.add(static_cast<uint64_t>(number));
    return hasher.value();
  }
};

std::shared_ptr<const SeparableCut> known_cut(const Device& device, const SeparableProblem& p) {
  static auto* table = new PlanTable<CutKey, SeparableCut>;
  const CutKey key{&device,
                   {p.batch, p.sources, p.width, p.results, p.hidden, p.in_h, p.in_w, p.out_h, p.out_w, p.kernel,
                    p.stride, p.pad_h, p.pad_w, p.expand}};
  return table->get(key, [&] { return separable_cut(p, PlanTarget(device)); });
}

Kernel& kernel(KernelSite& site, Device& device, const SeparableProblem& p) {
  const bool project = p.hidden == 0;
  return site.get(device, Variant().add(p.kernel, 4).add(p.stride, 2).add(p.expand, 1).add(project, 1), [&] {
    return Defines().add("K", p.kernel).add("STRIDE", p.stride).add("EXPAND", p.expand).add("PROJECT", project);
  });
}

params::Separable shape_of(const SeparableProblem& p, const SeparableCut& cut) {
  return {narrow(p.batch),    narrow(p.sources),  narrow(p.width),    narrow(p.results),  narrow(p.in_h),
          narrow(p.in_w),     narrow(p.out_h),    narrow(p.out_w),    narrow(p.pad_h),    narrow(p.pad_w),
          narrow(cut.band),   narrow(cut.bands),  narrow(cut.chunks), narrow(cut.rows),   narrow(cut.pitch),
          narrow(cut.places), passed(p.expanded), passed(p.filtered), passed(p.projected)};
}

// y: of the projection, or of the depthwise filter; other: shares of parts, or sums of bands.
void run(Queue& queue, const SeparableProblem& p, const SeparableCut& cut, const SeparableOperands& t, void* y,
         void* other) {
  static KernelSite site("conv/separable.cpu.cl", "separable");
  launch(queue, kernel(site, queue.device(), p),
         Range(static_cast<size_t>(p.batch * cut.bands), static_cast<size_t>(cut.parts)), Range(1, 1), t.x, t.expand,
         t.expand_bias, t.depthwise, t.depthwise_bias, t.project, t.project_bias, y, other, shape_of(p, cut),
         int32_t{p.residual}, LocalMemory{cut.image_bytes}, LocalMemory{cut.middle_bytes}, LocalMemory{cut.sums_bytes},
         LocalMemory{cut.places_bytes});
}

void run_projected(Queue& queue, const SeparableProblem& p, const SeparableCut& cut, const SeparableOperands& t) {
  if (cut.parts == 1) return run(queue, p, cut, t, t.y, nullptr);
  static KernelSite site("conv/separable.cpu.cl", "separable_sum");
  const int64_t count = p.batch * p.out_h * p.out_w * p.results;
  Workspace shares(queue, static_cast<size_t>(cut.parts * count) * sizeof(float));
  run(queue, p, cut, t, t.y, shares.data());
  launch(queue, kernel(site, queue.device(), p), Range(static_cast<size_t>(cpu_tasks(queue.device(), count))), Range(1),
         shares.data(), p.residual ? t.x : nullptr, t.y, count, narrow(cut.parts), passed(p.projected));
}

void run_excited(Queue& queue, const SeparableProblem& p, const SeparableCut& cut, const SeparableOperands& t) {
  static KernelSite site("conv/scaled_pointwise.cpu.cl", "squeeze_excite");
  const int64_t pixels = p.out_h * p.out_w;
  Workspace filtered(queue, static_cast<size_t>(p.batch * pixels * p.width) * sizeof(float)),
      sums(queue, static_cast<size_t>(p.batch * cut.bands * p.width) * sizeof(float)),
      scale(queue, static_cast<size_t>(p.batch * p.width) * sizeof(float));
  run(queue, p, cut, t, filtered.data(), sums.data());
  const params::SqueezeExcite s{narrow(p.width),    narrow(p.hidden), narrow(cut.bands), 1 / static_cast<float>(pixels),
                                passed(p.squeezed), passed(p.gate)};
  launch(queue, site.get(queue.device(), 0, [] { return Defines(); }), Range(static_cast<size_t>(p.batch)), Range(1),
         sums.data(), t.squeeze, t.squeeze_bias, t.excite, t.excite_bias, scale.data(), s,
         LocalMemory{static_cast<size_t>(4 * round_up(p.width, 16))},
         LocalMemory{static_cast<size_t>(4 * round_up(p.hidden, 16))});
  packed_pointwise(queue, {p.batch, pixels, p.width, p.results, p.projected},
                   {filtered.data(), t.project, t.project_bias, scale.data(), p.residual ? t.x : nullptr, t.y});
}

// Apart from the room in local memory.
const char* refuses(const SeparableProblem& p, bool cpu_style) {
  if (!cpu_style) return "made for CPU runtimes";
  if (p.kernel != 3 && p.kernel != 5 && p.kernel != 7) return "kernel sizes 3, 5 and 7 only";
  if (p.stride != 1 && p.stride != 2) return "strides 1 and 2 only";
  if (p.pad_h >= p.kernel || p.pad_w >= p.kernel || p.pad_h < 0 || p.pad_w < 0)
    return "padding is not smaller than the kernel";
  if (!p.expand && p.sources != p.width) return "channels of x and of the filters differ";
  return nullptr;
}

}  // namespace

const char* separable_refuses(const SeparableProblem& p, const PlanTarget& target) {
  if (const char* reason = refuses(p, target.cpu_style)) return reason;
  if (p.hidden && static_cast<uint64_t>(p.width) * lanes * 4 + (16 << 10) > target.local_memory)
    return "too many channels for local memory";
  if (separable_cut(p, target).band == 0) return "rows are too wide for local memory";
  return nullptr;
}

void separable_convolution(Queue& queue, const SeparableProblem& p, const SeparableOperands& operands) {
  if (p.batch == 0) return;
  if (const char* reason = refuses(p, queue.device().cpu_style()))
    throw InvalidArgument(std::string("separable_convolution: ") + reason);
  const auto cut = known_cut(queue.device(), p);
  if (cut->band == 0) throw InvalidArgument("separable_convolution: rows are too wide for local memory");
  if (p.hidden)
    run_excited(queue, p, *cut, operands);
  else
    run_projected(queue, p, *cut, operands);
}

void packed_pointwise(Queue& queue, const PointwiseProblem& p, const PointwiseOperands& t) {
  static KernelSite site("conv/scaled_pointwise.cpu.cl", "scaled_pointwise");
  Device& device = queue.device();
  const PlanTarget target(device);
  const bool scaled = t.scale != nullptr;
  // Without a scale all images are one.
  const int64_t images = scaled ? p.images : 1, pixels = scaled ? p.pixels : p.images * p.pixels;
  if (images * pixels * p.results == 0) return;
  const int64_t panels = ceil_div(p.results, lanes), tasks = 6 * target.compute_units;
  const int64_t ranges = std::clamp<int64_t>(ceil_div(tasks, images), ceil_div(pixels, 512), ceil_div(pixels, 48));
  const int64_t range = round_up(ceil_div(pixels, ranges), 8), all_ranges = ceil_div(pixels, range);
  const int64_t parts = std::clamp<int64_t>(ceil_div(tasks, images * all_ranges), 1, panels);
  const int64_t per_task = ceil_div(panels, parts);
  const params::ScaledPointwise s{narrow(images), narrow(pixels),     narrow(p.sources), narrow(p.results),
                                  narrow(range),  narrow(all_ranges), narrow(per_task),  passed(p.activation)};
  Kernel& kernel = site.get(device, scaled, [&] { return Defines().add("SCALED", scaled); });
  launch(queue, kernel,
         Range(static_cast<size_t>(images * all_ranges), static_cast<size_t>(ceil_div(panels, per_task))), Range(1, 1),
         t.x, t.weights, t.bias, t.scale, t.residual, t.y, s,
         LocalMemory{static_cast<size_t>(scaled ? 4 * lanes * p.sources : 64)});
}

}  // namespace ocl::ops
