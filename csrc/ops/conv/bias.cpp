#include "ops/conv/bias.h"

namespace ocl::ops {

void conv_bias_gradient(Queue& queue, DType type, bool channels_last, int64_t batch, int64_t channels, int64_t plane,
                        const void* dy, void* db) {
  static KernelSite planes("conv/bias.cl", "conv_bias_planes"), rows("conv/bias.cl", "conv_bias_rows"),
      gpu("conv/bias.cl", "conv_bias_gpu");
  if (channels == 0) return;
  Device& device = queue.device();
  require_dtype(device, type, "convolution_backward");
  const bool cpu = device.cpu_style() && (type == DType::float32 || is_half(type));
  auto specialise = [&](KernelSite& site) -> Kernel& {
    return site.get(device, Variant().add(type).add(cpu, 1), [&] {
      return Defines()
          .add("DTYPE", name_of(type))
          .add("ACCUMULATE", name_of(accumulate_type(type)))
          .add("FOR_CPU", cpu);
    });
  };
  const int32_t n = static_cast<int32_t>(batch), c = static_cast<int32_t>(channels);
  if (!cpu)
    launch(queue, specialise(gpu), Range(channels * 256), Range(256), dy, db, n, channels * plane, plane,
           channels_last ? int64_t{1} : plane, channels_last ? channels : int64_t{1});
  else if (channels_last)
    launch(queue, specialise(rows), Range(ceil_div(channels, 16)), Range(1), dy, db, c, batch * plane);
  else
    launch(queue, specialise(planes), Range(channels), Range(1), dy, db, n, c, plane);
}

}  // namespace ocl::ops
