// index_put with accumulation and in deterministic mode: ATen hands these cases over whole (indices not yet expanded)
// to index_put_with_sort_stub.
#include "ops/index/index.h"

#include "torch/aten/common.h"

#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/TensorAdvancedIndexing.h>

namespace ocl::aten {
namespace {

std::vector<at::Tensor> broadcast_indices(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& list) {
  at::native::checkIndexTensorTypes(at::IOptTensorListRef(list), true);
  auto indices = at::native::expandTensors(self, at::IOptTensorListRef(list), true);
  try {
    indices = at::expand_outplace(indices);
  } catch (std::exception&) {
    TORCH_CHECK_INDEX(false, "shape mismatch: indexing tensors could not be broadcast together");
  }
  indices.resize(static_cast<size_t>(self.dim()));
  return indices;
}

// The dimensions [first, last) that indices select from are replaced by the dimensions of the indices.
struct Replacement {
  int64_t first = 0, last = 0;
  at::DimVector shape;  // of the result of self[indices]
};

Replacement replacement_of(const at::Tensor& self, const std::vector<at::Tensor>& indices) {
  Replacement result;
  while (result.first < self.dim() && !indices[result.first].defined()) ++result.first;
  result.last = result.first;
  while (result.last < self.dim() && indices[result.last].defined()) ++result.last;
  result.shape.append(self.sizes().begin(), self.sizes().begin() + result.first);
  if (result.last > result.first) {
    const auto sizes = indices[result.first].sizes();
    result.shape.append(sizes.begin(), sizes.end());
  }
  result.shape.append(self.sizes().begin() + result.last, self.sizes().end());
  return result;
}

void index_put_with_sort(at::Tensor& given, const c10::List<std::optional<at::Tensor>>& list, const at::Tensor& value,
                         bool accumulate, bool) {
  at::Tensor self = given;
  auto indices = broadcast_indices(self, list);
  if (!at::native::hasContiguousSubspace(indices))
    std::tie(self, indices) = at::native::transposeToFront(self, indices);
  const Replacement where = replacement_of(self, indices);
  TORCH_CHECK(at::is_expandable_to(value.sizes(), where.shape), "shape mismatch: value tensor of shape ", value.sizes(),
              " cannot be broadcast to indexing result of shape ", at::IntArrayRef(where.shape));
  TORCH_CHECK(value.scalar_type() == self.scalar_type(),
              "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
              " for the destination and ", value.scalar_type(), " for the source.");
  if (c10::multiply_integers(where.shape) == 0) return;
  TORCH_CHECK(where.last > where.first, "index_put_: at least one index is needed");
  const auto index_dims = static_cast<int64_t>(where.shape.size()) - self.dim() + where.last - where.first;

  // Every operand gets the shape of the result; what does not move in a dimension has stride 0 there.
  if (accumulate) (void)dtype_of(self.scalar_type());
  ops::TensorView destination = moved(value.expand(where.shape));
  const ops::TensorView values = destination;
  destination.data = address(self);
  destination.strides.fill(0);
  for (int64_t d = 0; d < where.first; ++d) destination.strides[d] = self.stride(d);
  for (int64_t d = where.last; d < self.dim(); ++d)
    destination.strides[d - where.last + where.first + index_dims] = self.stride(d);
  std::vector<at::Tensor> owners;
  std::vector<ops::TensorView> views;
  std::vector<int64_t> sizes, strides;
  for (int64_t d = where.first; d < where.last; ++d) {
    owners.push_back(indices[d].to(at::kLong));
    const at::Tensor& index = owners.back();
    ops::TensorView moved = values;
    moved.data = address(index);
    moved.dtype = ops::DType::int64;
    moved.strides.fill(0);
    for (int64_t i = 0; i < index_dims; ++i) moved.strides[where.first + i] = index.stride(i);
    views.push_back(moved);
    sizes.push_back(self.size(d));
    strides.push_back(self.stride(d));
  }
  ops::index_put(queue_for(given), {destination, views, sizes, strides}, values, accumulate,
                 at::globalContext().deterministicAlgorithms());
}

}  // namespace
}  // namespace ocl::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(index_put_with_sort_stub, &ocl::aten::index_put_with_sort)
}  // namespace at::native
