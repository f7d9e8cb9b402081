// Operators that move channels among each other or between channels and pixels: one copy between two views.
#include "torch/aten/common.h"

#include <ATen/native/PixelShuffle.h>
#include <ATen/ops/channel_shuffle_native.h>

namespace ocl::aten {
namespace {

// One copy between two views with split dimensions; channels-last in, channels-last out, as on the CPU. `order` is that
// of the input's split dimensions in the output.
at::Tensor rearrange(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef split, at::IntArrayRef order) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const bool channels_last = self.dim() == 4 && self.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
  at::Tensor out = empty_like_options(sizes, self.options(),
                                      channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
  if (out.numel() == 0) return out;
  const at::Tensor from = self.view(split).permute(order);
  out.view(from.sizes()).copy_(from);
  return out;
}

at::Tensor channel_shuffle(const at::Tensor& self, int64_t groups) {
  if (self.dim() <= 2 || groups <= 0 || self.size(1) % groups != 0)
    return at::native::channel_shuffle(self, groups);  // its error
  at::DimVector split(self.sizes()), order;
  split[1] /= groups;
  split.insert(split.begin() + 1, groups);
  for (int64_t d = 0; d <= self.dim(); ++d) order.push_back(d);
  std::swap(order[1], order[2]);
  return rearrange(self, self.sizes(), split, order);
}

// The dimensions before [C, H, W], and the sizes after them.
at::DimVector batched(const at::Tensor& self, std::initializer_list<int64_t> sizes) {
  at::DimVector all(self.sizes().slice(0, self.dim() - 3));
  all.append(sizes.begin(), sizes.end());
  return all;
}

at::DimVector batched_order(int64_t batch, std::initializer_list<int64_t> order) {
  at::DimVector all;
  for (int64_t d = 0; d < batch; ++d) all.push_back(d);
  for (int64_t d : order) all.push_back(batch + d);
  return all;
}

at::Tensor pixel_shuffle(const at::Tensor& self, int64_t r) {
  at::native::check_pixel_shuffle_shapes(self, r);
  const int64_t b = self.dim() - 3, c = self.size(b) / (r * r), h = self.size(b + 1), w = self.size(b + 2);
  return rearrange(self, batched(self, {c, h * r, w * r}), batched(self, {c, r, r, h, w}),
                   batched_order(b, {0, 3, 1, 4, 2}));
}

at::Tensor pixel_unshuffle(const at::Tensor& self, int64_t r) {
  at::native::check_pixel_unshuffle_shapes(self, r);
  const int64_t b = self.dim() - 3, c = self.size(b), h = self.size(b + 1) / r, w = self.size(b + 2) / r;
  return rearrange(self, batched(self, {c * r * r, h, w}), batched(self, {c, h, r, w, r}),
                   batched_order(b, {0, 2, 4, 1, 3}));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("channel_shuffle", channel_shuffle);
  m.impl("pixel_shuffle", pixel_shuffle);
  m.impl("pixel_unshuffle", pixel_unshuffle);
}

}  // namespace
}  // namespace ocl::aten
