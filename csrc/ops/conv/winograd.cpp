#include "ops/conv/winograd.h"

#include "base/environment.h"
#include "opencl/capabilities/prefetch.h"
#include "ops/conv/plan.h"
#include "ops/elementwise/permute.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

namespace ocl::ops {

namespace {

std::atomic<WinogradMode>& mode() {
  static std::atomic<WinogradMode> value{[] {
    const std::string setting = environment::word("TORCH_OCL_WINOGRAD", "auto");
    return setting == "off"       ? WinogradMode::off
           : setting == "precise" ? WinogradMode::precise
                                  : WinogradMode::automatic;
  }()};
  return value;
}

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

// ---- kernels

enum class Step { transform_input, transform_gradient, transform_weight, multiply, weight_gradient };

KernelSite& site_of(Step step) {
  static KernelSite sites[] = {{"conv/winograd_transform.cpu.cl", "transform_input"},
                               {"conv/winograd_transform.cpu.cl", "transform_gradient"},
                               {"conv/winograd_transform.cpu.cl", "transform_weight"},
                               {"conv/winograd_multiply.cpu.cl", "multiply"},
                               {"conv/winograd_gradient.cpu.cl", "weight_gradient"}};
  return sites[static_cast<int>(step)];
}

// What a kernel is compiled for.
struct Form {
  Step step;
  DType type;
  int tile, taps;
  bool transforming;  // multiply with TRANSFORM_WEIGHT

  uint64_t variant() const { return Variant().add(tile, 4).add(taps, 4).add(type).add(transforming, 1); }
  Defines defines(const Device& device) const {
    const PlanTarget target(device);
    Defines result;
    if (step == Step::multiply || step == Step::weight_gradient) add_prefetch_define(result, device);
    result.add("TILE", tile).add("TAPS", taps);
    dtype(result, "DTYPE", type);
    if (step == Step::multiply)
      result.add("TRANSFORM_WEIGHT", transforming)
          .add("TILE_BLOCK", winograd_tile_block(tile, taps, transforming, target));
    if (step == Step::multiply && transforming) result.add("SLAB", winograd_slab(tile, taps, target));
    if (step == Step::weight_gradient) result.add("MOST_FILTERS", winograd_most_filters(tile, taps, target));
    return result;
  }
};

// The first request also builds the forms that other image and batch sizes choose: a new shape compiles nothing.
Kernel& kernel_of(Device& device, Step step, DType type, const WinogradPlan& plan) {
  const Form wanted{step, type, plan.tile, plan.taps, step == Step::multiply && plan.transform_weight};
  KernelSite& site = site_of(step);
  if (Kernel* kernel = site.find(device.index(), wanted.variant())) [[likely]]
    return *kernel;
  auto build = [&](const Form& form) -> Kernel& {
    return site.get(device, form.variant(), [&] { return form.defines(device); });
  };
  for (int tile : {2, 4})
    for (bool transforming : {false, true}) {
      const Form form{step, type, tile, plan.taps, transforming};
      const bool exists = tile == 2 || (plan.taps == 3 && winograd_mode() == WinogradMode::automatic);
      if (exists &&
          (!transforming || (step == Step::multiply && winograd_tile_block(tile, plan.taps, true, PlanTarget(device)))))
        build(form);
    }
  return build(wanted);
}

// ---- launches

// Of the images of source or result, in elements.
struct ImageStrides {
  int64_t image, channel;
};

ImageStrides strides_of(const WinogradPlan& plan, int64_t channels, int64_t depth, int64_t pixels) {
  if (plan.channels_last) return {channels * pixels, 1};
  return plan.volume ? ImageStrides{pixels, depth * pixels} : ImageStrides{channels * pixels, pixels};
}
ImageStrides source_strides(const WinogradPlan& plan) {
  return strides_of(plan, plan.source_channels, plan.source_depth, plan.source_pixels());
}
ImageStrides result_strides(const WinogradPlan& plan) {
  return strides_of(plan, plan.result_channels, plan.result_depth, plan.result_pixels());
}

void transform_input(Queue& queue, const WinogradPlan& plan, DType type, const void* x, float* v,
                     const WinogradPart& part) {
  Kernel& kernel = kernel_of(queue.device(), Step::transform_input, type, plan);
  const ImageStrides strides = source_strides(plan);
  launch(queue, kernel, Range(part.source_images * ceil_div(plan.source_channels, 16), ceil_div(plan.tiles_h, 4)),
         Range(1, 1), x, v, narrow(part.source_images), narrow(part.first_image), narrow(part.existing),
         narrow(plan.source_channels), narrow(plan.source_height), narrow(plan.source_width), narrow(plan.tiles_h),
         narrow(plan.tiles_w), narrow(plan.pad_h), narrow(plan.pad_w), narrow(plan.dilation),
         int32_t{plan.channels_last}, strides.image, strides.channel);
}

void transform_gradient(Queue& queue, const WinogradPlan& plan, DType type, const void* dy, float* d,
                        const WinogradPart& part) {
  Kernel& kernel = kernel_of(queue.device(), Step::transform_gradient, type, plan);
  const ImageStrides strides = result_strides(plan);
  launch(queue, kernel, Range(part.images * ceil_div(plan.result_channels, 16), ceil_div(plan.tiles_h, 4)), Range(1, 1),
         dy, d, narrow(part.images), narrow(part.first_result), narrow(plan.result_channels),
         narrow(plan.result_height), narrow(plan.result_width), narrow(plan.tiles_h), narrow(plan.tiles_w),
         narrow(plan.dilation), int32_t{plan.channels_last}, strides.image, strides.channel);
}

// How stage_weights of kernels_cl/conv/winograd_weight.clh finds the filters.
int32_t filter_order(const WinogradPlan& plan, bool flip) { return (flip ? 1 : 0) | (plan.filters_last ? 2 : 0); }

void transform_weight(Queue& queue, const WinogradPlan& plan, DType type, const void* w, float* u, bool flip) {
  Kernel& kernel = kernel_of(queue.device(), Step::transform_weight, type, plan);
  launch(queue, kernel, Range(round_up(plan.result_channels, 32) / 16, ceil_div(plan.source_channels, 16)), Range(1, 1),
         w, u, narrow(plan.result_channels), narrow(plan.source_channels), filter_order(plan, flip));
}

// weight: of the first tap in depth, the others `pitch` elements further each.
void multiply(Queue& queue, const WinogradPlan& plan, DType type, const float* v, const void* weight, int64_t pitch,
              const void* bias, void* y, bool flip, const WinogradPart& part, const ConvLimits& limits) {
  Kernel& kernel = kernel_of(queue.device(), Step::multiply, type, plan);
  const int64_t image_tiles = plan.tiles_h * plan.tiles_w, tiles = part.images * image_tiles;
  const ImageStrides strides = result_strides(plan);
  launch(queue, kernel, Range(ceil_div(tiles, plan.tile_block), ceil_div(plan.result_channels, 32)), Range(1, 1), v,
         weight, bias ? bias : y, y, narrow(plan.source_channels), narrow(plan.result_channels),
         narrow(plan.result_height), narrow(plan.result_width), narrow(plan.tiles_h), narrow(plan.tiles_w),
         narrow(tiles), filter_order(plan, flip), int32_t{bias != nullptr}, int32_t{plan.channels_last}, strides.image,
         strides.channel, narrow(part.source_images * image_tiles), narrow(plan.depth_taps), narrow(image_tiles), pitch,
         narrow(part.first_result), narrow(plan.dilation), passed(limits));
}

void weight_gradient(Queue& queue, const WinogradPlan& plan, DType type, const float* d, const float* v, void* w,
                     float* partial, const WinogradPart& part, bool first, bool last) {
  Kernel& kernel = kernel_of(queue.device(), Step::weight_gradient, type, plan);
  const int64_t image_tiles = plan.tiles_h * plan.tiles_w;
  launch(queue, kernel,
         Range(ceil_div(plan.result_channels, plan.out_block), ceil_div(plan.source_channels, plan.in_block)),
         Range(1, 1), d, v, w, partial ? static_cast<void*>(partial) : w, narrow(plan.result_channels),
         narrow(plan.source_channels), narrow(part.images * image_tiles), narrow(part.source_images * image_tiles),
         plan.out_block, plan.in_block, int32_t{first}, int32_t{last});
}

// ---- passes

template <class Pointer>
Pointer elements_from(Pointer data, int64_t offset, DType type) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const char, char>;
  return static_cast<Byte*>(data) + offset * static_cast<int64_t>(size_of(type));
}

// Filters [O * C][KD][R * R], as the caller has them, to [KD][O * C][R * R], or back.
void order_filters(Queue& queue, const WinogradPlan& plan, DType type, const void* from, void* to, bool back) {
  const int64_t filters = plan.source_channels * plan.result_channels, taps = int64_t{plan.taps} * plan.taps;
  PermuteDimension dimensions[] = {
      {filters, plan.depth_taps * taps, taps}, {plan.depth_taps, taps, filters * taps}, {taps, 1, 1}};
  if (back)
    for (PermuteDimension& d : dimensions) std::swap(d.from, d.to);
  if (!permute(queue, size_of(type), from, to, dimensions))
    throw std::logic_error("winograd: filters of a volume were not permuted");
}

void run_convolution(Queue& queue, const WinogradPlan& plan, DType type, const void* source, const void* w,
                     const void* bias, void* result, bool flip, void* workspace, const ConvLimits& limits = {}) {
  float* v = static_cast<float*>(workspace);
  float* u = v + plan.v_bytes / 4;
  const int64_t taps = plan.depth_taps, filters = plan.source_channels * plan.result_channels * plan.taps * plan.taps;
  if (taps > 1) {
    void* ordered = u + plan.other_bytes / 4;
    order_filters(queue, plan, type, w, ordered, false);
    w = ordered;
  }
  const void* weight = elements_from(w, flip ? (taps - 1) * filters : 0, type);
  int64_t pitch = flip ? -filters : filters;
  if (!plan.transform_weight) {
    for (int64_t tap = 0; tap < taps; ++tap)
      transform_weight(queue, plan, type, elements_from(weight, tap * pitch, type), u + tap * plan.filter_floats(),
                       flip);
    weight = u;
    pitch = plan.filter_floats();
  }
  for (int64_t i = 0; i < plan.parts(); ++i) {
    const WinogradPart part = winograd_part(plan, i);
    transform_input(queue, plan, type, elements_from(source, part.source_offset, type), v, part);
    multiply(queue, plan, type, v, weight, pitch, bias, elements_from(result, part.result_offset, type), flip, part,
             limits);
  }
}

void run_weight_gradient(Queue& queue, const WinogradPlan& plan, DType type, const void* x, const void* dy, void* w,
                         void* workspace) {
  float* v = static_cast<float*>(workspace);
  float* d = v + plan.v_bytes / 4;
  float* partial = plan.partial_bytes ? d + plan.other_bytes / 4 : nullptr;
  void* filters = plan.depth_taps > 1 ? d + (plan.other_bytes + plan.partial_bytes) / 4 : w;
  const int64_t numel = plan.source_channels * plan.result_channels * plan.taps * plan.taps;
  for (int64_t i = 0; i < plan.parts(); ++i) {
    const WinogradPart part = winograd_part(plan, i);
    transform_input(queue, plan, type, elements_from(x, part.source_offset, type), v, part);
    transform_gradient(queue, plan, type, elements_from(dy, part.result_offset, type), d, part);
    for (int64_t tap = 0; tap < plan.depth_taps; ++tap)
      weight_gradient(queue, plan, type, d, v + tap * plan.tiles_h * plan.tiles_w * 16,
                      elements_from(filters, tap * numel, type), partial ? partial + tap * numel : nullptr, part,
                      i == 0, i + 1 == plan.parts());
  }
  if (filters != w) order_filters(queue, plan, type, filters, w, true);
}

// ---- choice

// Estimated time in multiply-adds of a register-tiled kernel. A transformed pixel costs about as much as 12 of them to
// write and read back, a transformed weight 10 (half of that in the weight gradient, which only stores its own result).
double winograd_cost(ConvPass pass, const WinogradPlan& plan) {
  const double planes = plan.points() * plan.points(), depth_taps = plan.depth_taps;
  const double tiles =
      static_cast<double>(plan.batch * (plan.volume ? plan.result_depth : 1)) * plan.tiles_h * plan.tiles_w;
  const double source_tiles = tiles * static_cast<double>(plan.source_tiles()) / std::max<double>(plan.tiles(), 1);
  const double source = round_up(plan.source_channels, 16), result = round_up(plan.result_channels, 32);
  const double filters = source * result * (pass == ConvPass::backward_weight ? 5 : 10);
  return planes * (depth_taps * (1.1 * std::max(tiles, 8.0) * source * result + filters) +
                   12 * (source_tiles * source + tiles * result));
}

// Of the matrix product that would be used instead; it loses a part of its speed to packing.
double direct_cost(const ConvProblem& problem) {
  return 1.3 * problem.batch * problem.out_pixels() * problem.in_channels * problem.out_channels * problem.taps();
}

const char* refuse(ConvPass pass, const ConvProblem& problem, const PlanTarget& target, int tile, int taps) {
  if (!target.cpu_style) return "written for CPU devices";
  if (problem.dtype != DType::float32 && !is_half(problem.dtype)) return "computes in float32";
  if (problem.kernel[1] != taps || problem.kernel[2] != taps) return "another kernel size";
  constexpr std::array<int64_t, 3> ones{1, 1, 1};
  const int64_t dilation = problem.dilation[1];
  if (problem.stride != ones || (problem.dilation[0] != 1 && problem.kernel[0] != 1))
    return "needs stride 1 and dilation 1 in depth";
  if (dilation != problem.dilation[2] || problem.padding[1] % dilation || problem.padding[2] % dilation)
    return "padding is no multiple of the dilation";
  if (problem.groups != 1) return "needs one group";
  if (pass == ConvPass::backward_data &&
      (problem.padding[0] >= problem.kernel[0] || problem.padding[1] >= taps * dilation ||
       problem.padding[2] >= taps * dilation))
    return "padding exceeds the kernel";
  const WinogradMode current = winograd_mode();
  if (current == WinogradMode::off) return "switched off";
  if (current == WinogradMode::precise && tile + taps > 5)
    return "less accurate than the direct sum, precise mode is on";
  return nullptr;
}

const char* refuse(ConvPass pass, const WinogradPlan& plan, const PlanTarget& target) {
  if (plan.dilation > 1 && plan.volume) return "no dilated volumes";
  if (target.local_memory < uint64_t{128} << 10 || (pass != ConvPass::backward_weight && !plan.tile_block))
    return "too little local memory";
  if (plan.workspace() > target.max_allocation / 2) return "too much workspace";
  if (plan.source_tiles() * 16 > INT32_MAX) return "image too large";
  return nullptr;
}

const char* decline(ConvPass pass, const ConvProblem& problem, const WinogradPlan& plan, const PlanTarget& target) {
  const double cost = winograd_cost(pass, plan);
  if (cost > direct_cost(problem)) return "too few channels or pixels to be faster";
  if (plan.tile == 4 && cost > winograd_cost(pass, winograd_plan(pass, problem, 2, plan.taps, target)))
    return "F(2x2,3x3) is faster";
  return nullptr;
}

template <ConvPass pass>
void run(Queue& queue, const WinogradPlan& plan, const ConvProblem& p, const ConvOperands& operands, void* workspace) {
  const DType type = p.dtype;
  if constexpr (pass == ConvPass::forward)
    run_convolution(queue, plan, type, operands.x, operands.w, operands.bias, operands.y, false, workspace, p.limits);
  else if constexpr (pass == ConvPass::backward_data)
    run_convolution(queue, plan, type, operands.y, operands.w, nullptr, operands.x, true, workspace);
  else
    run_weight_gradient(queue, plan, type, operands.x, operands.y, operands.w, workspace);
}

template <ConvPass pass, int tile, int taps>
ConvPlan plan_winograd(const ConvProblem& problem, const PlanTarget& target) {
  if (const char* reason = refuse(pass, problem, target, tile, taps)) return refused(reason);
  const WinogradPlan plan = winograd_plan(pass, problem, tile, taps, target);
  if (const char* reason = refuse(pass, plan, target)) return refused(reason);
  return {nullptr, decline(pass, problem, plan, target), plan.workspace(),
          [plan](Queue& queue, const ConvProblem& p, const ConvOperands& operands, void* workspace) {
            run<pass>(queue, plan, p, operands, workspace);
          },
          pass == ConvPass::forward};
}

// ---- table

template <ConvPass pass, int tile, int taps>
constexpr ConvAlgorithm algorithm(const char* name) {
  return {name, pass, plan_winograd<pass, tile, taps>,
          [](const ConvProblem& problem) { return pass != ConvPass::backward_weight && problem.kernel[0] == 1; }};
}

constexpr ConvAlgorithm algorithms[] = {
    algorithm<ConvPass::forward, 4, 3>("winograd_f4x4_3x3"),
    algorithm<ConvPass::forward, 2, 5>("winograd_f2x2_5x5"),
    algorithm<ConvPass::forward, 2, 3>("winograd_f2x2_3x3"),
    algorithm<ConvPass::backward_data, 4, 3>("winograd_f4x4_3x3"),
    algorithm<ConvPass::backward_data, 2, 5>("winograd_f2x2_5x5"),
    algorithm<ConvPass::backward_data, 2, 3>("winograd_f2x2_3x3"),
    algorithm<ConvPass::backward_weight, 4, 3>("winograd_f4x4_3x3"),
    algorithm<ConvPass::backward_weight, 2, 5>("winograd_f2x2_5x5"),
    algorithm<ConvPass::backward_weight, 2, 3>("winograd_f2x2_3x3"),
};

}  // namespace

WinogradMode winograd_mode() { return mode().load(std::memory_order_relaxed); }
void set_winograd_mode(WinogradMode value) { mode().store(value, std::memory_order_relaxed); }

std::span<const ConvAlgorithm> winograd_algorithms() { return algorithms; }

}  // namespace ocl::ops
