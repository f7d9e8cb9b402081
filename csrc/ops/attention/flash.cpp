#include "ops/attention/flash.h"

#include "base/environment.h"
#include "opencl/capabilities/tensor_cores.h"
#include "ops/core/precision.h"

#include <algorithm>

namespace ocl::ops::attention_detail {
namespace {

constexpr int64_t items = 128, rows_of_group = 64;

bool allowed() {
  static const bool yes = environment::word("TORCH_OCL_ATTENTION", "auto") != "products";
  return yes;
}

// Whether rows come in whole chunks of 16 bytes.
bool in_chunks(const TensorView& t) {
  const int64_t chunk = 16 / static_cast<int64_t>(size_of(t.dtype));
  bool whole = t.size(3) % chunk == 0 && reinterpret_cast<uintptr_t>(t.data) % 16 == 0;
  for (int d = 0; d < 3; ++d) whole &= t.size(d) == 1 || t.stride(d) % chunk == 0;
  return whole;
}

int64_t tile_width(const Problem& p) { return round_up(std::max(p.width, p.value_width), 16); }

Range grid(int64_t rows, int64_t rows_of_group, int64_t heads) {
  return Range(static_cast<size_t>(ceil_div(rows, rows_of_group) * items), static_cast<size_t>(heads));
}

// Two blocks of 16 rows to a warp read half as much from local memory, but need registers, and rows enough for all
// compute units.
int64_t row_blocks(const Device& device, DType type, const Problem& p, bool bias, bool dropout) {
  const int64_t groups = p.batch * p.heads * ceil_div(int64_t{p.length}, 2 * rows_of_group);
  return is_half(type) && tile_width(p) <= 64 && !bias && !dropout && p.length > rows_of_group &&
                 groups >= device.capabilities().compute_units
             ? 2
             : 1;
}

Kernel& kernel(KernelSite& site, Device& device, DType type, const Problem& p, bool bias,
               const AttentionOptions& options, const char* name, int64_t value) {
  const int64_t width = tile_width(p);
  const bool dropout = options.dropout > 0, exact = type == DType::float32 && !allows_tf32(Tf32::gemm);
  return site.get(device,
                  Variant().add(type).add(width / 16, 4).add(value, 2).add(bias, 1).add(dropout, 1).add(exact, 1), [&] {
                    Defines defines;
                    dtype(defines, "X_DTYPE", type);
                    add_tensor_core_defines(defines);
                    return defines.add("WIDTH", width)
                        .add(name, value)
                        .add("BIAS", bias)
                        .add("DROPOUT", dropout)
                        .add("EXACT", exact);
                  });
}

}  // namespace

const char* flash_refuses(const Device& device, const Problem& p, std::initializer_list<const TensorView*> rows) {
  if (!allowed()) return "switched off by TORCH_OCL_ATTENTION";
  const int64_t widest = is_half((*rows.begin())->dtype) ? 128 : 80;  // local memory
  if (p.width > widest || p.value_width > widest) return "needs at most 128 features per head, 80 of float32";
  if (!(p.scale > 0)) return "needs a positive scale";
  if (!std::all_of(rows.begin(), rows.end(), [](const TensorView* t) { return in_chunks(*t); }))
    return "needs rows of whole chunks of 16 bytes";
  return has_tensor_cores(device) ? nullptr : "no tensor cores";
}

void forward_flash(Queue& queue, const Problem& p, const TensorView& q, const TensorView& k, const TensorView& v,
                   const TensorView& bias, const TensorView& out, const TensorView& lse,
                   const AttentionOptions& options) {
  static KernelSite site("attention/flash.gpu.cl", "attention_forward");
  Device& device = queue.device();
  const int64_t blocks = row_blocks(device, q.dtype, p, bool(bias), options.dropout > 0);
  const TensorView mask = bias ? bias : no_bias();
  launch(queue, kernel(site, device, q.dtype, p, bool(bias), options, "ROW_BLOCKS", blocks),
         grid(p.length, blocks * rows_of_group, p.batch * p.heads), Range(items, 1), q.data, k.data, v.data, mask.data,
         out.data, lse.data, STRIDES_OF(q), STRIDES_OF(k), STRIDES_OF(v), STRIDES_OF(mask), STRIDES_OF(out),
         SHAPE_OF(p, options));
}

void backward_flash(Queue& queue, const Problem& p, const TensorView& q, const TensorView& k, const TensorView& v,
                    const TensorView& bias, const TensorView& out, const TensorView& dout, const TensorView& lse,
                    void* delta, const TensorView& dq, const TensorView& dk, const TensorView& dv,
                    const AttentionOptions& options) {
  static KernelSite queries("attention/flash_backward.gpu.cl", "attention_backward_query"),
      keys("attention/flash_backward.gpu.cl", "attention_backward_key");
  const TensorView mask = bias ? bias : no_bias();
  const auto run = [&](KernelSite& site, int64_t own_keys, const Range& global) {
    launch(queue, kernel(site, queue.device(), q.dtype, p, bool(bias), options, "OWN_KEYS", own_keys), global,
           Range(items, 1), q.data, k.data, v.data, mask.data, out.data, dout.data, lse.data, delta, dq.data, dk.data,
           dv.data, STRIDES_OF(q), STRIDES_OF(k), STRIDES_OF(v), STRIDES_OF(mask), STRIDES_OF(out), STRIDES_OF(dout),
           STRIDES_OF(dq), STRIDES_OF(dk), STRIDES_OF(dv), SHAPE_OF(p, options));
  };
  run(queries, 0, grid(p.length, rows_of_group, p.batch * p.heads));
  run(keys, 1, grid(p.keys, rows_of_group, p.batch * p.key_heads));
}

}  // namespace ocl::ops::attention_detail
