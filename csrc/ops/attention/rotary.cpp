#include "ops/attention/rotary.h"

#include "ops/core/lanes.h"
#include "params/attention.h"

namespace ocl::ops {
void rotary(Queue& queue, const TensorView& q, const TensorView& k, const TensorView& cos, const TensorView& sin,
            const TensorView& q_out, const TensorView& k_out) {
  Device& device = queue.device();
  require(q.dims == 4 && k.dims == 4 && cos.dims == 3 && sin.dims == 3, "rotary: q and k need four dimensions");
  require(q.dtype == DType::float32 || is_half(q.dtype), "rotary: float32, float16 or bfloat16 only");
  const int64_t batch = q.size(0), length = q.size(2), width = q.size(3);
  require(width % 2 == 0 && k.size(0) == batch && k.size(2) == length && k.size(3) == width,
          "rotary: q and k do not match");
  for (const TensorView* t : {&cos, &sin})
    require(t->size(0) == batch && t->size(1) == length && t->size(2) == width,
            "rotary: cos and sin must be [batch, length, width]");
  for (const TensorView* t : {&q, &k, &cos, &sin})
    require(t->dtype == q.dtype && (t->stride(-1) == 1 || width == 1),
            "rotary: needs one dtype and dense last dimensions");
  require(q_out.is_contiguous() && k_out.is_contiguous() && q_out.numel() == q.numel() && k_out.numel() == k.numel(),
          "rotary: results do not match");
  if (batch * length * width == 0) return;
  static KernelSite site("attention/rotary.cl", "rotary");
  Kernel& kernel = site.get(device, Variant().add(q.dtype), [&] {
    Defines defines;
    return dtype(defines, "X_DTYPE", q.dtype);
  });
  const auto i = [](int64_t n) { return static_cast<int32_t>(n); };
  const params::RotaryArguments arguments{q.stride(0),  q.stride(1),   q.stride(2),   k.stride(0),   k.stride(1),
                                          k.stride(2),  cos.stride(0), cos.stride(1), sin.stride(0), sin.stride(1),
                                          i(q.size(1)), i(k.size(1)),  i(length),     i(width)};
  const Range local = device.cpu_style() ? Range(1, 1) : Range();
  launch(queue, kernel, Range(q.size(1) + k.size(1), batch * length), local, q.data, k.data, cos.data, sin.data,
         q_out.data, k_out.data, arguments);
}

}  // namespace ocl::ops
