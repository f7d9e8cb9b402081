#include "ops/conv/winograd.h"

#include "opencl/environment.h"
#include "opencl/prefetch.h"

#include <algorithm>
#include <atomic>

namespace ocl::ops {

namespace {

std::atomic<WinogradMode>& mode() {
  static std::atomic<WinogradMode> value{environment::flag("TORCH_OCL_WINOGRAD", true) ? WinogradMode::automatic : WinogradMode::precise};
  return value;
}

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

// ---- kernels

enum class Step { transform_input, transform_gradient, transform_weight, multiply, weight_gradient };

KernelSite& site_of(Step step) {
  static KernelSite sites[] = {{"conv_winograd_transform.cl", "transform_input"},
                               {"conv_winograd_transform.cl", "transform_gradient"},
                               {"conv_winograd_transform.cl", "transform_weight"},
                               {"conv_winograd_multiply.cl", "multiply"},
                               {"conv_winograd_gradient.cl", "weight_gradient"}};
  return sites[static_cast<int>(step)];
}

// What a kernel is compiled for.
struct Form {
  Step step;
  DType type;
  int tile, taps;
  bool transforming;  // multiply with TRANSFORM_WEIGHT

  uint64_t variant() const { return Variant().add(tile, 4).add(taps, 4).add(type).add(transforming, 1); }
  Defines defines(const Device& owner) const {
    const Capabilities& device = owner.capabilities();
    Defines result;
    if (step == Step::multiply || step == Step::weight_gradient) add_prefetch_define(result, owner);
    result.add("TILE", tile).add("TAPS", taps);
    dtype(result, "DTYPE", type);
    if (step == Step::multiply) result.add("TRANSFORM_WEIGHT", transforming).add("TILE_BLOCK", winograd_tile_block(tile, taps, transforming, device));
    if (step == Step::multiply && transforming) result.add("SLAB", winograd_slab(tile, taps, device));
    if (step == Step::weight_gradient) result.add("MOST_FILTERS", winograd_most_filters(tile, taps, device));
    return result;
  }
};

// The first request also builds the forms that other image and batch sizes choose: a new shape compiles nothing.
Kernel& kernel_of(Device& device, Step step, DType type, const WinogradPlan& plan) {
  const Form wanted{step, type, plan.tile, plan.taps, step == Step::multiply && plan.transform_weight};
  KernelSite& site = site_of(step);
  if (Kernel* kernel = site.find(device.index(), wanted.variant())) [[likely]]
    return *kernel;
  auto build = [&](const Form& form) -> Kernel& { return site.get(device, form.variant(), [&] { return form.defines(device); }); };
  for (int tile : {2, 4})
    for (bool transforming : {false, true}) {
      const Form form{step, type, tile, plan.taps, transforming};
      const bool exists = tile == 2 || (plan.taps == 3 && winograd_mode() == WinogradMode::automatic);
      if (exists && (!transforming || (step == Step::multiply && winograd_tile_block(tile, plan.taps, true, device.capabilities())))) build(form);
    }
  return build(wanted);
}

// ---- launches

void transform_input(Queue& queue, const WinogradPlan& plan, DType type, const void* x, float* v, int64_t images) {
  Kernel& kernel = kernel_of(queue.device(), Step::transform_input, type, plan);
  launch(queue, kernel, Range(images * ceil_div(plan.source_channels, 16), ceil_div(plan.tiles_h, 4)), Range(1, 1), x, v, narrow(images),
         narrow(plan.source_channels), narrow(plan.source_height), narrow(plan.source_width), narrow(plan.tiles_h), narrow(plan.tiles_w),
         narrow(plan.pad_h), narrow(plan.pad_w), int32_t{plan.channels_last});
}

void transform_gradient(Queue& queue, const WinogradPlan& plan, DType type, const void* dy, float* d, int64_t images) {
  Kernel& kernel = kernel_of(queue.device(), Step::transform_gradient, type, plan);
  launch(queue, kernel, Range(images * ceil_div(plan.result_channels, 16), ceil_div(plan.tiles_h, 4)), Range(1, 1), dy, d, narrow(images),
         narrow(plan.result_channels), narrow(plan.result_height), narrow(plan.result_width), narrow(plan.tiles_h), narrow(plan.tiles_w),
         int32_t{plan.channels_last});
}

void transform_weight(Queue& queue, const WinogradPlan& plan, DType type, const void* w, float* u, bool flip) {
  Kernel& kernel = kernel_of(queue.device(), Step::transform_weight, type, plan);
  launch(queue, kernel, Range(round_up(plan.result_channels, 32) / 16, ceil_div(plan.source_channels, 16)), Range(1, 1), w, u,
         narrow(plan.result_channels), narrow(plan.source_channels), int32_t{flip});
}

void multiply(Queue& queue, const WinogradPlan& plan, DType type, const float* v, const void* weight, const void* bias, void* y, bool flip,
              int64_t images) {
  Kernel& kernel = kernel_of(queue.device(), Step::multiply, type, plan);
  const int64_t tiles = images * plan.tiles_h * plan.tiles_w;
  launch(queue, kernel, Range(ceil_div(tiles, plan.tile_block), ceil_div(plan.result_channels, 32)), Range(1, 1), v, weight, bias ? bias : y, y,
         narrow(plan.source_channels), narrow(plan.result_channels), narrow(plan.result_height), narrow(plan.result_width), narrow(plan.tiles_h),
         narrow(plan.tiles_w), narrow(tiles), int32_t{flip}, int32_t{bias != nullptr}, int32_t{plan.channels_last});
}

void weight_gradient(Queue& queue, const WinogradPlan& plan, DType type, const float* d, const float* v, void* w, float* partial, int64_t images,
                     bool first, bool last) {
  Kernel& kernel = kernel_of(queue.device(), Step::weight_gradient, type, plan);
  launch(queue, kernel, Range(ceil_div(plan.result_channels, plan.out_block), ceil_div(plan.source_channels, plan.in_block)), Range(1, 1), d, v, w,
         partial ? static_cast<void*>(partial) : w, narrow(plan.result_channels), narrow(plan.source_channels),
         narrow(images * plan.tiles_h * plan.tiles_w), plan.out_block, plan.in_block, int32_t{first}, int32_t{last});
}

// ---- passes

// The images from `first` on of a dense tensor.
template <class Pointer>
Pointer images_from(Pointer data, int64_t first, int64_t image_numel, DType type) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const char, char>;
  return static_cast<Byte*>(data) + first * image_numel * static_cast<int64_t>(size_of(type));
}

void run_convolution(Queue& queue, const WinogradPlan& plan, DType type, const void* source, const void* w, const void* bias, void* result, bool flip,
                     void* workspace) {
  float* v = static_cast<float*>(workspace);
  const void* weight = w;
  if (!plan.transform_weight) {
    float* u = v + plan.v_bytes / 4;
    transform_weight(queue, plan, type, w, u, flip);
    weight = u;
  }
  for (int64_t image = 0; image < plan.batch; image += plan.images) {
    const int64_t images = std::min(plan.images, plan.batch - image);
    transform_input(queue, plan, type, images_from(source, image, plan.source_channels * plan.source_height * plan.source_width, type), v, images);
    multiply(queue, plan, type, v, weight, bias, images_from(result, image, plan.result_channels * plan.result_height * plan.result_width, type),
             flip, images);
  }
}

void run_weight_gradient(Queue& queue, const WinogradPlan& plan, DType type, const void* x, const void* dy, void* w, void* workspace) {
  float* v = static_cast<float*>(workspace);
  float* d = v + plan.v_bytes / 4;
  float* partial = plan.partial_bytes ? d + plan.other_bytes / 4 : nullptr;
  for (int64_t image = 0; image < plan.batch; image += plan.images) {
    const int64_t images = std::min(plan.images, plan.batch - image);
    transform_input(queue, plan, type, images_from(x, image, plan.source_channels * plan.source_height * plan.source_width, type), v, images);
    transform_gradient(queue, plan, type, images_from(dy, image, plan.result_channels * plan.result_height * plan.result_width, type), d, images);
    weight_gradient(queue, plan, type, d, v, w, partial, images, image == 0, image + images == plan.batch);
  }
}

// ---- choice

// Estimated time in multiply-adds of a register-tiled kernel. A transformed pixel costs about as much as 12 of them to write and read
// back, a transformed weight 10 (half of that in the weight gradient, which only stores its own result).
double winograd_cost(ConvPass pass, const ConvProblem& problem, const Capabilities& device, int tile, int taps) {
  const WinogradPlan plan = winograd_plan(pass, problem, tile, taps, device);
  const double planes = plan.points() * plan.points(), tiles = static_cast<double>(plan.batch) * plan.tiles_h * plan.tiles_w;
  const double source = round_up(plan.source_channels, 16), result = round_up(plan.result_channels, 32);
  const double filters = source * result * (pass == ConvPass::backward_weight ? 5 : 10);
  return planes * (1.1 * std::max(tiles, 8.0) * source * result + 12 * tiles * (source + result) + filters);
}

// Of the matrix product that would be used instead; it loses a part of its speed to packing.
double direct_cost(const ConvProblem& problem) {
  return 1.3 * problem.batch * problem.out_pixels() * problem.in_channels * problem.out_channels * problem.taps();
}

const char* refuse(ConvPass pass, const ConvProblem& problem, const Device& device, int tile, int taps) {
  if (!device.fat()) return "written for CPU devices";
  if (problem.dtype != DType::float32 && !is_half(problem.dtype)) return "computes in float32";
  if (problem.input[0] != 1 || problem.kernel[0] != 1 || problem.padding[0] != 0) return "two-dimensional only";
  if (problem.kernel[1] != taps || problem.kernel[2] != taps) return "another kernel size";
  if (problem.stride != std::array<int64_t, 3>{1, 1, 1} || problem.dilation[1] != 1 || problem.dilation[2] != 1)
    return "needs stride 1 and dilation 1";
  if (problem.groups != 1) return "needs one group";
  if (pass == ConvPass::backward_data && (problem.padding[1] >= taps || problem.padding[2] >= taps)) return "padding exceeds the kernel";
  const WinogradMode current = winograd_mode();
  if (current == WinogradMode::off) return "switched off";
  if (current == WinogradMode::precise && tile + taps > 5) return "less accurate than the direct sum, precise mode is on";
  const uint64_t local_memory = device.capabilities().local_memory;
  const WinogradPlan plan = winograd_plan(pass, problem, tile, taps, device.capabilities());
  if (local_memory < uint64_t{128} << 10 || (pass != ConvPass::backward_weight && !plan.tile_block)) return "too little local memory";
  if (plan.workspace() > device.capabilities().max_allocation / 2) return "too much workspace";
  if (plan.tiles() * 16 > INT32_MAX) return "image too large";
  return nullptr;
}

const char* decline(ConvPass pass, const ConvProblem& problem, const Device& device, int tile, int taps) {
  const double cost = winograd_cost(pass, problem, device.capabilities(), tile, taps);
  if (cost > direct_cost(problem)) return "too few channels or pixels to be faster";
  if (tile == 4 && cost > winograd_cost(pass, problem, device.capabilities(), 2, taps)) return "F(2x2,3x3) is faster";
  return nullptr;
}

// ---- table

template <ConvPass pass, int tile, int taps>
constexpr ConvAlgorithm algorithm(const char* name) {
  return {
      name,
      pass,
      [](const ConvProblem& problem, const Device& device) { return refuse(pass, problem, device, tile, taps); },
      [](const ConvProblem& problem, const Device& device) {
        return winograd_plan(pass, problem, tile, taps, device.capabilities()).workspace();
      },
      [](Queue& queue, const ConvProblem& problem, const ConvOperands& operands, void* workspace) {
        const WinogradPlan plan = winograd_plan(pass, problem, tile, taps, queue.device().capabilities());
        if constexpr (pass == ConvPass::forward)
          run_convolution(queue, plan, problem.dtype, operands.x, operands.w, operands.bias, operands.y, false, workspace);
        else if constexpr (pass == ConvPass::backward_data)
          run_convolution(queue, plan, problem.dtype, operands.y, operands.w, nullptr, operands.x, true, workspace);
        else
          run_weight_gradient(queue, plan, problem.dtype, operands.x, operands.y, operands.w, workspace);
      },
      [](const ConvProblem& problem, const Device& device) { return decline(pass, problem, device, tile, taps); },
  };
}

constexpr ConvAlgorithm algorithms[] = {
    algorithm<ConvPass::forward, 4, 3>("winograd_f4x4_3x3"),         algorithm<ConvPass::forward, 2, 5>("winograd_f2x2_5x5"),
    algorithm<ConvPass::forward, 2, 3>("winograd_f2x2_3x3"),         algorithm<ConvPass::backward_data, 4, 3>("winograd_f4x4_3x3"),
    algorithm<ConvPass::backward_data, 2, 5>("winograd_f2x2_5x5"),   algorithm<ConvPass::backward_data, 2, 3>("winograd_f2x2_3x3"),
    algorithm<ConvPass::backward_weight, 4, 3>("winograd_f4x4_3x3"), algorithm<ConvPass::backward_weight, 2, 5>("winograd_f2x2_5x5"),
    algorithm<ConvPass::backward_weight, 2, 3>("winograd_f2x2_3x3"),
};

}  // namespace

WinogradMode winograd_mode() { return mode().load(std::memory_order_relaxed); }
void set_winograd_mode(WinogradMode value) { mode().store(value, std::memory_order_relaxed); }

std::span<const ConvAlgorithm> winograd_algorithms() { return algorithms; }

}  // namespace ocl::ops
