#include "ops/conv/combine.h"

namespace ocl::ops {

namespace {

Kernel& specialise(KernelSite& site, Device& device, DType type) {
  return site.get(device, Variant().add(type), [&] { return Defines().add("DTYPE", name_of(type)); });
}

}  // namespace

int64_t residues(const ConvProblem& p) { return p.stride[0] * p.stride[1] * p.stride[2]; }

int64_t slot_bytes(const ConvProblem& p) {
  int64_t elements = p.batch * p.in_channels;
  for (int d = 0; d < 3; ++d) elements *= ceil_div(p.input[d], p.stride[d]);
  return round_up(elements * static_cast<int64_t>(size_of(p.dtype)), 64) + 256;
}

uint64_t each_sub_grid(const ConvProblem& p, const std::function<void(const Gather&, int)>& compute) {
  uint64_t present = 0;
  int residue = 0;
  for (int64_t z = 0; z < p.stride[0]; ++z)
    for (int64_t y = 0; y < p.stride[1]; ++y)
      for (int64_t x = 0; x < p.stride[2]; ++x, ++residue) {
        const Gather g = flatten_pointwise(backward_data_gather(p, {z, y, x}));
        if (g.taps() == 0 || g.plane() == 0) continue;
        present |= uint64_t{1} << residue;
        compute(g, residue);
      }
  return present;
}

void interleave(Queue& queue, const ConvProblem& p, const void* parts, uint64_t present, void* dx) {
  static KernelSite site("conv/combine.cpu.cl", "conv_interleave");
  struct alignas(16) Int3 {
    int32_t d, h, w, unused;
  };
  auto triple = [](const std::array<int64_t, 3>& v) {
    return Int3{static_cast<int32_t>(v[0]), static_cast<int32_t>(v[1]), static_cast<int32_t>(v[2]), 0};
  };
  const int64_t planes = p.batch * p.in_channels,
                tasks = std::min(planes, cpu_tasks(queue.device(), planes * p.in_pixels()));
  const int64_t per_task = ceil_div(planes, tasks);
  launch(queue, specialise(site, queue.device(), p.dtype), Range(ceil_div(planes, per_task)), Range(1), parts, dx,
         triple(p.input), triple(p.stride), slot_bytes(p) / static_cast<int64_t>(size_of(p.dtype)), present, planes,
         per_task);
}

WeightTiles choose_weight_tiles(const Gather& g, const PlanTarget& target, int64_t pixels_per_word) {
  constexpr int64_t words = 128;
  const int64_t cores = target.compute_units, size = g.depth(), pixels = g.shape.batch * g.plane();
  const bool roomy = target.local_memory >= 512 << 10;
  auto even = [](int64_t total, int64_t limit, int64_t unit) {
    return round_up(ceil_div(total, ceil_div(total, limit)), unit);
  };
  WeightTiles t{};
  t.channels = even(g.shape.out_channels, roomy ? 256 : 128, 16);
  t.columns = even(size, roomy ? 192 : 128, 32);
  const int64_t tasks = g.groups * ceil_div(g.shape.out_channels, t.channels) * ceil_div(size, t.columns);
  t.parts = balanced_shares(tasks, cores, 1, ceil_div(pixels, words * pixels_per_word));
  t.share = round_up(ceil_div(pixels, t.parts), 16 * pixels_per_word);
  t.parts = ceil_div(pixels, t.share);
  t.local_bytes = 4 * (t.channels * words + t.columns * words + t.channels * t.columns);
  return t;
}

void sum_shares(Queue& queue, const ConvProblem& p, const float* shares, int64_t parts, void* dw) {
  static KernelSite site("conv/combine.cpu.cl", "conv_sum_shares");
  launch(queue, specialise(site, queue.device(), p.dtype), Range(ceil_div(p.w_numel(), 4096)), Range(1), shares, dw,
         p.w_numel(), static_cast<int32_t>(parts));
}

}  // namespace ocl::ops
