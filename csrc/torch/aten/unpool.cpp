// max_unpool2d and max_unpool3d: a scatter into zeros, plane by plane.
#include "torch/aten/common.h"

#include <ATen/ops/zeros.h>

namespace ocl::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;

void check_common(const Tensor& self, const Tensor& indices, IntArrayRef output_size, int spatial) {
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  if (spatial == 2) {
    TORCH_CHECK(output_size.size() == 2,
                "There should be exactly two elements (height, width) in output_size, but got ", output_size.size(),
                " elements.");
    TORCH_CHECK(self.dim() == 3 || self.dim() == 4,
                "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with ", self.dim(),
                " dimensions.");
  } else {
    TORCH_CHECK(self.dim() == 4 || self.dim() == 5,
                "Input to max_unpooling3d should be a 4d or 5d Tensor, but got a tensor with ", self.dim(),
                " dimensions.");
    TORCH_CHECK(output_size.size() == 3,
                "There should be exactly three elements (depth, height, width) in output_size, but got ",
                output_size.size(), " elements.");
  }
  TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
              self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  for (int64_t i = 1; i < self.dim(); ++i)
    TORCH_CHECK(self.size(i) > 0, "max_unpooling", spatial,
                "d(): Expected input to have non-zero size for non-batch dimensions, but got ", self.sizes(),
                " with dimension ", i, " being empty.");
}

// The device reports an index outside of the output when it is synchronized.
Tensor& unpool(const Tensor& self, const Tensor& indices, IntArrayRef output_size, int spatial, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "Expected dtype ", self.scalar_type(),
              " for the output but got ", out.scalar_type());
  at::DimVector sizes(self.sizes().slice(0, self.dim() - spatial));
  sizes.append(output_size.begin(), output_size.end());
  at::native::resize_output(out, sizes);
  Tensor planes = at::zeros(sizes, self.options()).flatten(-spatial);
  planes.scatter_(-1, indices.flatten(-spatial), self.flatten(-spatial));
  return out.copy_(planes.view(sizes));
}

Tensor& max_unpool2d_out(const Tensor& self, const Tensor& indices, IntArrayRef output_size, Tensor& out) {
  check_common(self, indices, output_size, 2);
  return unpool(self, indices, output_size, 2, out);
}
Tensor max_unpool2d(const Tensor& self, const Tensor& indices, IntArrayRef output_size) {
  check_common(self, indices, output_size, 2);
  at::DimVector sizes(self.sizes().slice(0, self.dim() - 2));
  sizes.append(output_size.begin(), output_size.end());
  Tensor out = empty_like_options(sizes, self.options(), self.suggest_memory_format());
  return unpool(self, indices, output_size, 2, out);
}

Tensor& max_unpool3d_out(const Tensor& self, const Tensor& indices, IntArrayRef output_size, IntArrayRef stride,
                         IntArrayRef padding, Tensor& out) {
  check_common(self, indices, output_size, 3);
  TORCH_CHECK(stride.size() == 3,
              "There should be exactly three elements (depth, height, width) in stride, but got: ", stride.size(),
              " elements.");
  TORCH_CHECK(padding.size() == 3,
              "There should be exactly three elements (depth, height, width) in padding, but got: ", padding.size(),
              " elements.");
  TORCH_CHECK(stride[0] > 0 && stride[1] > 0 && stride[2] > 0,
              "strides should be greater than zero, but got stride: ", stride);
  return unpool(self, indices, output_size, 3, out);
}
Tensor max_unpool3d(const Tensor& self, const Tensor& indices, IntArrayRef output_size, IntArrayRef stride,
                    IntArrayRef padding) {
  Tensor out = empty_like_options({0}, self.options());
  return max_unpool3d_out(self, indices, output_size, stride, padding, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("max_unpool2d", max_unpool2d);
  m.impl("max_unpool2d.out", max_unpool2d_out);
  m.impl("max_unpool3d", max_unpool3d);
  m.impl("max_unpool3d.out", max_unpool3d_out);
}

}  // namespace ocl::aten
