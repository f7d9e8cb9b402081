#include "ops/conv/layout.h"

#include <bit>

namespace ocl::ops {

void transpose_planes(Queue& queue, size_t element_bytes, int64_t batch, int64_t rows, int64_t columns, const void* x, void* y) {
  static KernelSite fat_site("conv_layout.cl", "conv_layout_fat"), simt_site("conv_layout.cl", "conv_layout_simt");
  if (batch * rows * columns == 0) return;
  Device& device = queue.device();
  Kernel& kernel = (device.fat() ? fat_site : simt_site).get(device, element_bytes, [&] {
    static constexpr const char* types[] = {"uchar", "ushort", "uint", "ulong"};
    return Defines().add("E", types[std::countr_zero(element_bytes)]).add("FAT", device.fat());
  });
  const int32_t r = static_cast<int32_t>(rows), c = static_cast<int32_t>(columns);
  if (device.fat())
    launch(queue, kernel, Range(ceil_div(rows, 16), batch), Range(1, 1), x, y, r, c);
  else
    launch(queue, kernel, Range(round_up(columns, 16), round_up(rows, 16), batch), Range(16, 16, 1), x, y, r, c);
}

}  // namespace ocl::ops
