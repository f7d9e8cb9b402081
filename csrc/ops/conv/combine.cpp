#include "ops/conv/combine.h"

#include "ops/conv/splits.h"

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

namespace {

constexpr int64_t slab_words = 128;  // of a row, as in kernels_cl/conv/weight_gradient.clh

int64_t even_tile(int64_t total, int64_t limit, int64_t unit) {
  return round_up(ceil_div(total, ceil_div(total, limit)), unit);
}

int64_t count_tiles(const Gather& g, int64_t channels, int64_t columns) {
  return g.groups * ceil_div(g.shape.out_channels, channels) * ceil_div(g.depth(), columns);
}

// For many cores: smaller tiles, which pack their pixels more often, or more parts, which leave more sums in memory.
void split_weight_tiles(WeightTiles& t, const Gather& g, int64_t cores, int64_t pixels, int64_t unit) {
  // In products of a pixel: packing it, and storing a partial sum and adding it later. Measured on AMD EPYC (AVX-512)
  // with PoCL 3.1, November 2026.
  constexpr int64_t packing = 10, storing = 50;
  struct Split {
    int64_t channels, columns, parts, end, work;
  };
  std::vector<Split> splits;
  const int64_t most = ceil_div(pixels, slab_words * unit);
  for (const int64_t channel_parts : {1, 2, 4})
    for (const int64_t column_parts : {1, 2, 4}) {
      const int64_t channels = even_tile(g.shape.out_channels, std::max<int64_t>(16, t.channels / channel_parts), 16),
                    columns = even_tile(g.depth(), std::max<int64_t>(32, t.columns / column_parts), 32),
                    tiles = count_tiles(g, channels, columns), products = channels * columns;
      for (int64_t parts = 1; parts <= most; parts = std::max(parts + 1, parts * 5 / 4)) {
        const int64_t share = round_up(ceil_div(pixels, parts), 16 * unit), stored = parts > 1 ? storing * products : 0,
                      of_pixel = products + packing * (channels + columns), task = share * of_pixel + stored;
        // A core that starts late delays the end by a part of a task.
        splits.push_back({channels, columns, parts, ceil_div(tiles * parts, cores) * task + task / 4,
                          tiles * (pixels * of_pixel + parts * stored)});
        if (tiles * parts >= 8 * cores) break;  // even enough
      }
    }
  const Split& best = thriftiest(splits);
  t.channels = best.channels;
  t.columns = best.columns;
  t.parts = best.parts;
}

}  // namespace

WeightTiles choose_weight_tiles(const Gather& g, const PlanTarget& target, int64_t pixels_per_word) {
  const int64_t cores = target.compute_units, pixels = g.shape.batch * g.plane();
  const bool roomy = target.local_memory >= 512 << 10;
  WeightTiles t{};
  t.channels = even_tile(g.shape.out_channels, roomy ? 256 : 128, 16);
  t.columns = even_tile(g.depth(), roomy ? 192 : 128, 32);
  if (cores <= most_played_cores)
    t.parts = balanced_shares(count_tiles(g, t.channels, t.columns), cores, 1,
                              ceil_div(pixels, slab_words * pixels_per_word));
  else
    split_weight_tiles(t, g, cores, pixels, pixels_per_word);
  t.share = round_up(ceil_div(pixels, t.parts), 16 * pixels_per_word);
  t.parts = ceil_div(pixels, t.share);
  t.local_bytes = 4 * (t.channels * slab_words + t.columns * slab_words + t.channels * t.columns);
  return t;
}

void sum_shares(Queue& queue, const ConvProblem& p, const float* shares, int64_t parts, void* dw) {
  static KernelSite site("conv/combine.cpu.cl", "conv_sum_shares");
  launch(queue, specialise(site, queue.device(), p.dtype), Range(ceil_div(p.w_numel(), 4096)), Range(1), shares, dw,
         p.w_numel(), static_cast<int32_t>(parts));
}

}  // namespace ocl::ops
