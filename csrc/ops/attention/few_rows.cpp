#include "ops/attention/few_rows.h"

#include "opencl/capabilities/prefetch.h"
#include "params/attention.h"

#include <algorithm>

namespace ocl::ops::attention_detail {
namespace {

constexpr int32_t rows_of_task = params::few_rows_tile;
constexpr int32_t block = 64, least_part = 256;  // keys: BLOCK of the kernels; of a part

using params::FewRowsPlan;

FewRowsPlan plan_of(const Device& device, const Problem& p) {
  const auto tiles = static_cast<int32_t>(ceil_div(p.heads / p.key_heads * p.length, rows_of_task));
  const int64_t tasks = p.batch * p.key_heads * tiles, wanted = 4 * int64_t{device.capabilities().compute_units};
  // Parts of equal length, so that all processors end together.
  const int64_t most = std::max<int64_t>(p.keys / least_part, 1);
  const int64_t parts = std::clamp<int64_t>(ceil_div(wanted, tasks), 1, most);
  const auto keys = static_cast<int32_t>(round_up(ceil_div(p.keys, parts), block));
  return {tiles, keys, static_cast<int32_t>(ceil_div(p.keys, keys))};
}

Kernel& kernel(KernelSite& site, Device& device, DType type, const Problem& p, bool bias) {
  const int64_t width = round_up(std::max(p.width, p.value_width), 32);
  const bool direct = p.width % 16 == 0 && p.value_width % 32 == 0;
  return site.get(device, Variant().add(type).add(width / 32, 4).add(bias, 1).add(direct, 1), [&] {
    Defines defines;
    dtype(defines, "X_DTYPE", type).add("WIDTH", width).add("BIAS", bias).add("DIRECT", direct);
    return add_prefetch_define(defines, device);
  });
}

}  // namespace

bool has_few_rows(const Device& device, const Problem& p, const AttentionOptions& options) {
  const int64_t rows = int64_t{p.heads / p.key_heads} * p.length;
  return device.cpu_style() && options.dropout == 0 && p.length <= 8 && rows <= 128 && p.keys > 0;
}

void forward_few_rows(Queue& queue, const Problem& p, const TensorView& q, const TensorView& k, const TensorView& v,
                      const TensorView& bias, const TensorView& out, const TensorView& lse,
                      const AttentionOptions& options) {
  static KernelSite few("attention/few_rows.cpu.cl", "attention_few_rows"),
      merge("attention/few_rows.cpu.cl", "attention_merge");
  Device& device = queue.device();
  const FewRowsPlan plan = plan_of(device, p);
  const int64_t queries = p.batch * p.heads * p.length;
  const size_t sums = plan.parts > 1 ? static_cast<size_t>(plan.parts * queries * (p.value_width + 2)) : 0;
  Workspace partial(queue, sums * sizeof(float));
  const TensorView mask = bias ? bias : no_bias();
  const void* parts = sums ? partial.data() : lse.data;
  launch(queue, kernel(few, device, q.dtype, p, bool(bias)), Range(p.batch * p.key_heads * plan.tiles, plan.parts),
         Range(1, 1), q.data, k.data, v.data, mask.data, out.data, lse.data, parts, STRIDES_OF(q), STRIDES_OF(k),
         STRIDES_OF(v), STRIDES_OF(mask), STRIDES_OF(out), SHAPE_OF(p, options), plan);
  if (plan.parts > 1)
    launch(queue, kernel(merge, device, q.dtype, p, bool(bias)), Range(queries), Range(1), parts, out.data, lse.data,
           STRIDES_OF(out), p.heads, p.length, p.value_width, plan.parts, queries);
}

}  // namespace ocl::ops::attention_detail
