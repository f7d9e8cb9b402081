#include "ops/attention/few_rows.h"
#include "ops/attention/flash.h"
#include "ops/attention/products.h"
#include "ops/elementwise/elementwise.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace ocl::ops {

using attention_detail::Problem, attention_detail::no_bias;

namespace {

constexpr int64_t block = 64;

// CPU kernels copy rows that are not whole register tiles.
bool packed(const Device& device, int64_t width, int64_t value_width) {
  return device.cpu_style() && (width % 32 || value_width % 32);
}

int64_t width_class(const Device& device, int64_t width, int64_t value_width) {
  const int64_t widest = std::max(width, value_width);
  if (device.cpu_style()) return round_up(widest, 32);
  return widest <= 64 ? 64 : widest <= 128 ? 128 : 256;
}

void check(bool condition, const char* what, const TensorView& a, const TensorView& b) {
  if (!condition)
    throw InvalidArgument(std::string("attention: ") + what + " (" + a.shape_string() + ", " + b.shape_string() + ")");
}

Problem problem(const Device& device, const TensorView& q, const TensorView& k, const TensorView& v,
                const TensorView& bias, const AttentionOptions& options) {
  check(q.dims == 4 && k.dims == 4 && v.dims == 4, "needs four dimensions", q, k);
  check(q.size(0) == k.size(0) && q.size(3) == k.size(3), "query and key do not match", q, k);
  check(k.size(0) == v.size(0) && k.size(1) == v.size(1) && k.size(2) == v.size(2), "key and value do not match", k, v);
  check(k.size(1) > 0 && q.size(1) % k.size(1) == 0, "query heads must be a multiple of key heads", q, k);
  check(!bias || (bias.dims == 4 && bias.size(0) == q.size(0) && bias.size(1) == q.size(1) &&
                  bias.size(2) == q.size(2) && bias.size(3) == k.size(2)),
        "bias does not match the scores", bias, q);
  for (const TensorView* t : {&q, &k, &v, &bias})
    check(!*t || ((t->stride(3) == 1 || t->size(3) <= 1) && t->dtype == q.dtype),
          "needs a dense last dimension and one dtype", *t, q);
  check(q.size(2) < (int64_t{1} << 31) - block && k.size(2) < (int64_t{1} << 31) - block, "is limited to 2^31 rows", q,
        k);
  if (const char* reason = attention_refuses(device, q.dtype, q.size(3), v.size(3)))
    throw InvalidArgument(std::string("attention: ") + reason);
  const auto i = [](int64_t n) { return static_cast<int32_t>(n); };
  const double keep = 1 - options.dropout;
  return {i(q.size(1)),
          i(k.size(1)),
          i(q.size(2)),
          i(k.size(2)),
          i(q.size(3)),
          i(v.size(3)),
          options.causal,
          q.size(0),
          static_cast<float>(options.scale),
          static_cast<float>(1 / keep),
          static_cast<uint32_t>(std::min(std::ldexp(keep, 32), 4294967295.0))};
}

Kernel& kernel(KernelSite& cpu, KernelSite& gpu, Device& device, const char* pass, DType type, const Problem& p,
               bool bias, bool dropout) {
  KernelSite& site = device.cpu_style() ? cpu : gpu;
  const int64_t width = width_class(device, p.width, p.value_width);
  const bool copies = packed(device, p.width, p.value_width);
  return site.get(device, Variant().add(type).add(width / 32, 4).add(copies, 1).add(bias, 1).add(dropout, 1), [&] {
    Defines defines;
    return dtype(defines, "X_DTYPE", type)
        .add(pass, 1)
        .add("WIDTH", width)
        .add("PACKED", copies)
        .add("BIAS", bias)
        .add("DROPOUT", dropout);
  });
}

}  // namespace

const char* attention_refuses(const Device& device, DType dtype, int64_t width, int64_t value_width) {
  if (dtype != DType::float32 && !is_half(dtype)) return "needs float32, float16 or bfloat16";
  if (width < 1 || value_width < 1 || width > 256 || value_width > 256)
    return "needs between 1 and 256 features per head";
  // tiles of 64 x width, and two of scores
  const int64_t tiles = packed(device, width, value_width) ? 7 : 5;
  const uint64_t bytes =
      static_cast<uint64_t>((tiles * width_class(device, width, value_width) + 2 * block) * block) * sizeof(float);
  if (device.cpu_style() && bytes > device.capabilities().local_memory)
    return "needs more local memory than the device has";
  return nullptr;
}

uint64_t attention_counters(int64_t batch, int64_t heads, int64_t length, int64_t keys) {
  return static_cast<uint64_t>(batch * heads * length * ceil_div(std::max<int64_t>(keys, 1), block) * 16);
}

void attention(Queue& queue, const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& bias,
               const TensorView& out, const TensorView& lse, const AttentionOptions& options) {
  if (out.numel() == 0) return;
  Device& device = queue.device();
  const Problem p = problem(device, q, k, v, bias, options);
  check(out.size(0) == p.batch && out.size(1) == p.heads && out.size(2) == p.length && out.size(3) == p.value_width &&
            out.stride(3) == 1,
        "result does not match", out, q);
  if (!attention_detail::flash_refuses(device, p, {&q, &k, &v, &out}))
    return attention_detail::forward_flash(queue, p, q, k, v, bias, out, lse, options);
  if (attention_detail::by_products(device, q, k))
    return attention_detail::forward_by_products(queue, q, k, v, bias, out, lse, options);
  if (attention_detail::has_few_rows(device, p, options))
    return attention_detail::forward_few_rows(queue, p, q, k, v, bias, out, lse, options);
  static KernelSite cpu("attention/attention.cpu.cl", "attention_forward"),
      gpu("attention/attention.gpu.cl", "attention_forward");
  Kernel& run = kernel(cpu, gpu, device, "FORWARD", q.dtype, p, bool(bias), options.dropout > 0);
  const size_t heads = static_cast<size_t>(p.batch * p.heads), rows = static_cast<size_t>(p.length);
  const TensorView mask = bias ? bias : no_bias();
  const Range global = device.cpu_style() ? Range(ceil_div(rows, block), heads) : Range(rows * block, heads);
  launch(queue, run, global, device.cpu_style() ? Range(1, 1) : Range(block, 1), q.data, k.data, v.data, mask.data,
         out.data, lse.data, STRIDES_OF(q), STRIDES_OF(k), STRIDES_OF(v), STRIDES_OF(mask), STRIDES_OF(out),
         SHAPE_OF(p, options));
}

namespace {

// As attention_backward, but dq: float32 [B, Hq, L, pitch] of zeros, contiguous (columns from E on are scratch).
void backward_with_sums(Queue& queue, const Problem& p, const TensorView& q, const TensorView& k, const TensorView& v,
                        const TensorView& bias, const TensorView& out, const TensorView& dout, const TensorView& lse,
                        void* delta, const TensorView& dq, const TensorView& dk, const TensorView& dv,
                        const AttentionOptions& options) {
  Device& device = queue.device();
  const auto pitch = static_cast<int32_t>(dq.size(3));
  const size_t heads = static_cast<size_t>(p.batch * p.heads), rows = static_cast<size_t>(p.length),
               keys = static_cast<size_t>(p.keys);
  const bool dropped = options.dropout > 0;
  static KernelSite delta_cpu("attention/attention.cpu.cl", "attention_delta"),
      delta_gpu("attention/attention.gpu.cl", "attention_delta");
  const Range local = device.cpu_style() ? Range(1, 1) : Range(block, 1);
  launch(queue, kernel(delta_cpu, delta_gpu, device, "BACKWARD", q.dtype, p, bool(bias), dropped),
         device.cpu_style() ? Range(ceil_div(rows, block), heads) : Range(rows * block, heads), local, out.data,
         dout.data, delta, STRIDES_OF(out), STRIDES_OF(dout), p.heads, p.length, p.value_width);
  if (attention_detail::by_products(device, q, k))
    return attention_detail::backward_by_products(queue, q, k, v, bias, dout, lse, delta, dq, dk, dv, options);
  const TensorView mask = bias ? bias : no_bias();
  const auto run = [&](Kernel& backward, const Range& global) {
    launch(queue, backward, global, device.cpu_style() ? Range(1) : local, q.data, k.data, v.data, mask.data, dout.data,
           lse.data, delta, dq.data, dk.data, dv.data, STRIDES_OF(q), STRIDES_OF(k), STRIDES_OF(v), STRIDES_OF(mask),
           STRIDES_OF(dout), STRIDES_OF(dk), STRIDES_OF(dv), pitch, SHAPE_OF(p, options));
  };
  const size_t key_heads = static_cast<size_t>(p.batch * p.key_heads);
  static KernelSite cpu("attention/attention.cpu.cl", "attention_backward"),
      query_gpu("attention/attention.gpu.cl", "attention_backward_query"),
      key_gpu("attention/attention.gpu.cl", "attention_backward_key");
  if (device.cpu_style())
    return run(kernel(cpu, cpu, device, "BACKWARD", q.dtype, p, bool(bias), dropped), Range(key_heads));
  run(kernel(query_gpu, query_gpu, device, "BACKWARD", q.dtype, p, bool(bias), dropped), Range(rows * block, heads));
  run(kernel(key_gpu, key_gpu, device, "BACKWARD", q.dtype, p, bool(bias), dropped), Range(keys * block, key_heads));
}

}  // namespace

void attention_backward(Queue& queue, const TensorView& q, const TensorView& k, const TensorView& v,
                        const TensorView& bias, const TensorView& out, const TensorView& dout, const TensorView& lse,
                        const TensorView& dq, const TensorView& dk, const TensorView& dv,
                        const AttentionOptions& options) {
  Device& device = queue.device();
  const Problem p = problem(device, q, k, v, bias, options);
  check(dq.dtype == q.dtype && dq.dims == 4 && dq.size(2) == p.length && dq.size(3) == p.width,
        "gradient of the query does not match", dq, q);
  check(dout.dtype == q.dtype && (dout.stride(3) == 1 || p.value_width == 1), "gradient needs a dense last dimension",
        dout, q);
  const int64_t rows = p.batch * p.heads * p.length;
  Workspace delta(queue, static_cast<size_t>(rows) * sizeof(float));
  if (!attention_detail::flash_refuses(device, p, {&q, &k, &v, &out, &dout, &dq, &dk, &dv}))
    return attention_detail::backward_flash(queue, p, q, k, v, bias, out, dout, lse, delta.data(), dq, dk, dv, options);
  const int64_t pitch = round_up(p.width, 32), sizes[4] = {p.batch, p.heads, p.length, p.width};
  Workspace sums(queue, static_cast<size_t>(rows * pitch) * sizeof(float));
  const float zero = 0;
  queue.fill(sums.data(), &zero, sizeof zero, static_cast<size_t>(rows * pitch) * sizeof zero);
  backward_with_sums(queue, p, q, k, v, bias, out, dout, lse, delta.data(),
                     TensorView::contiguous(sums.data(), DType::float32, {p.batch, p.heads, p.length, pitch}), dk, dv,
                     options);
  const int64_t strides[4] = {p.heads * p.length * pitch, p.length * pitch, pitch, 1};
  copy(queue, dq, TensorView::strided(sums.data(), DType::float32, sizes, strides));
}

}  // namespace ocl::ops
