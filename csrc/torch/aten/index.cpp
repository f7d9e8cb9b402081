// Reading and writing through indices: ATen's own functions for checks and shapes, our kernels behind their stubs where
// CPU and CUDA share them.
#include "ops/index/index.h"

#include "torch/aten/common.h"
#include "torch/aten/element_bits.h"
#include "torch/aten/iterator_view.h"
#include "torch/aten/many_dims.h"
#include "ops/shape/shape.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/IndexKernel.h>
#include <ATen/native/TensorAdvancedIndexing.h>
#include <ATen/ops/_index_put_impl_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/flip_native.h>
#include <ATen/ops/gather_native.h>
#include <ATen/ops/index_copy_native.h>
#include <ATen/ops/index_fill_native.h>
#include <ATen/ops/index_native.h>
#include <ATen/ops/put_native.h>
#include <ATen/ops/take_native.h>

namespace ocl::aten {
namespace {

bool deterministic() { return at::globalContext().deterministicAlgorithms(); }

// Operands `first`.. of the iterator are index tensors; sizes and (byte) strides describe the dimensions they select
// from.
struct Indices {
  std::vector<ops::TensorView> views;
  std::vector<int64_t> strides;
  ops::AdvancedIndex at(const ops::TensorView& self, at::IntArrayRef sizes) const {
    return {self, views, std::span(sizes.data(), sizes.size()), strides};
  }
};

Indices indices_of(const at::TensorIteratorBase& iterator, int first, at::IntArrayRef byte_strides,
                   int64_t element_bytes) {
  Indices result;
  for (size_t t = 0; t < byte_strides.size(); ++t) {
    result.views.push_back(view(iterator, first + static_cast<int>(t)));
    result.strides.push_back(byte_strides[t] / element_bytes);
  }
  return result;
}

// That the kernels walk over whatever their strides; larger iterators go in parts.
constexpr int most_dims = ops::walk_dims;

void check_some_index(at::IntArrayRef strides) {
  TORCH_CHECK_INDEX(!strides.empty(), "index: at least one index is needed");
}

void index_kernel(at::TensorIteratorBase& iterator, at::IntArrayRef sizes, at::IntArrayRef strides) {
  if (iterator.numel() == 0) return;
  check_some_index(strides);
  if (iterator.ndim() > most_dims)
    return for_parts_of_few_dims(
        iterator, [&](at::TensorIteratorBase& part) { index_kernel(part, sizes, strides); }, most_dims);
  const ops::TensorView out = view(iterator, 0), self = view(iterator, 1);
  const Indices indices = indices_of(iterator, 2, strides, static_cast<int64_t>(ops::size_of(self.dtype)));
  ops::index(queue_for(iterator), out, indices.at(self, sizes));
}

void index_put_kernel(at::TensorIterator& iterator, at::IntArrayRef sizes, at::IntArrayRef strides, bool accumulate) {
  if (iterator.numel() == 0) return;
  check_some_index(strides);
  if (iterator.ndim() > most_dims)
    return for_parts_of_few_dims(
        iterator,
        [&](at::TensorIteratorBase& part) {
          index_put_kernel(static_cast<at::TensorIterator&>(part), sizes, strides, accumulate);
        },
        most_dims);
  if (accumulate) (void)dtype_of(iterator.dtype(0));  // sums are only of types that kernels compute in
  const ops::TensorView self = view(iterator, 0), values = view(iterator, 1);
  const Indices indices = indices_of(iterator, 2, strides, static_cast<int64_t>(ops::size_of(self.dtype)));
  ops::index_put(queue_for(iterator), indices.at(self, sizes), values, accumulate, deterministic());
}

// ATen restrides operand 0 so that it stands still in `dim`, and gives the stride and the size there.
void index_copy_kernel(at::TensorIterator& iterator, int64_t dim, int64_t size, int64_t stride) {
  if (iterator.numel() == 0) return;
  if (iterator.ndim() > most_dims)
    return for_parts_of_few_dims(
        iterator,
        [&](at::TensorIteratorBase& part) {
          index_copy_kernel(static_cast<at::TensorIterator&>(part), dim, size, stride);
        },
        most_dims);
  const ops::TensorView self = view(iterator, 0), index = view(iterator, 1), source = view(iterator, 2);
  ops::index_copy(queue_for(iterator), {self, size, stride}, index, source, deterministic());
}

void index_fill_kernel(at::TensorIterator& iterator, int64_t dim, int64_t size, int64_t stride,
                       const at::Scalar& value) {
  if (iterator.numel() == 0) return;
  if (iterator.ndim() > most_dims)
    return for_parts_of_few_dims(
        iterator,
        [&](at::TensorIteratorBase& part) {
          index_fill_kernel(static_cast<at::TensorIterator&>(part), dim, size, stride, value);
        },
        most_dims);
  ops::index_fill(queue_for(iterator), {view(iterator, 0), size, stride}, view(iterator, 1),
                  element_bits(value, iterator.dtype(0)));
}

void take_kernel(at::TensorIterator& iterator, const at::TensorBase& input) {
  if (iterator.numel() == 0) return;
  const at::Tensor self = at::Tensor(input).contiguous();
  ops::take(queue_for(iterator), view(iterator, 0), moved(self), view(iterator, 1));
}

void put_kernel(at::TensorIterator& iterator, const at::TensorBase& base, bool accumulate) {
  if (iterator.numel() == 0) return;
  const at::Tensor self(base);
  if (accumulate) (void)dtype_of(self.scalar_type());
  const auto dense = contiguous(self);
  ops::put(queue_for(self), moved(*dense), view(iterator, 1), view(iterator, 0), accumulate, deterministic());
  if (!dense->is_same(self)) self.copy_(*dense);
}

void flip_kernel(at::TensorIterator& iterator, bool) {
  if (iterator.numel() == 0) return;
  for_parts_of_few_dims(
      iterator, [](at::TensorIteratorBase& part) { ops::copy_strided(queue_for(part), view(part, 0), view(part, 1)); });
}

void gather_kernel(const at::Tensor& result, const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  if (index.numel() == 0) return;
  if (too_many_dims(self))
    return change_around(result, dim, [&](const at::Tensor& three) {
      gather_kernel(three, around(within(self, index.sizes(), dim), dim), 1, around(index, dim));
    });
  ops::gather(queue_for(result), moved(result), moved(self), static_cast<int>(dim), view(index));
}

// ---- operators

struct Index : Out<at::native::structured_index_out, 1> {
  using Out::Out;
};
at::Tensor& index_out(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Index op(out);
  const auto precomputed = op.meta(self, at::IOptTensorListRef(indices));
  op.impl(self, precomputed.sizes, precomputed.strides, op.output(0));
  op.finish();
  return out;
}

struct Gather : Out<at::native::structured_gather_out, 1> {
  using Out::Out;
};
at::Tensor& gather_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, bool sparse_grad,
                       at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Gather op(out);
  op.meta(self, dim, index, sparse_grad);
  op.impl(self, dim, index, sparse_grad, op.output(0));
  op.finish();
  return out;
}

struct IndexCopy : Out<at::native::structured_index_copy_out, 1> {
  using Out::Out;
};
at::Tensor& index_copy_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                           at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  IndexCopy op(out);
  const auto precomputed = op.meta(self, dim, index, source);
  op.impl(self, precomputed.dim, index, source, op.output(0));
  op.finish();
  return out;
}

at::Tensor& index_select_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(!(self.dim() == 0 && index.numel() != 1), "index_select(): Index to scalar can have only 1 value, got ",
              index.numel(), " value(s)");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "index_select(): self and result must have the same scalar type");
  TORCH_CHECK(self.device() == index.device() && self.device() == out.device(),
              "index_select(): Expected all tensors to be on the same device, but got ", self.device(), ", ",
              index.device(), " and ", out.device());
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, index);
  at::DimVector sizes(self.sizes());
  if (self.dim() > 0) sizes[dim] = index.numel();
  TORCH_CHECK(index.numel() == 0 || self.dim() == 0 || self.size(dim) > 0,
              "index_select(): self indexing axis dim should be positive");
  at::native::resize_output(out, sizes);
  if (out.numel() > 0 && too_many_dims(self))
    change_around(out, dim, [&](const at::Tensor& three) {
      ops::index_select(queue_for(self), moved(three), moved(around(self, dim)), 1, view(index));
    });
  else if (out.numel() > 0)
    ops::index_select(queue_for(self), moved(out), moved(self), static_cast<int>(dim), view(index));
  return out;
}

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  at::Tensor out = at::empty({0}, self.options());
  return index_select_out(self, dim, index, out);
}

at::Tensor& take_out(const at::Tensor& self, const at::Tensor& index, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  return at::native::take_out(self, index, out);
}
at::Tensor take(const at::Tensor& self, const at::Tensor& index) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  return at::native::take(self, index);
}
at::Tensor& put_(at::Tensor& self, const at::Tensor& index, const at::Tensor& source, bool accumulate) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  return at::native::put_(self, index, source, accumulate);
}
at::Tensor& index_fill_scalar(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  return at::native::index_fill_(self, dim, index, value);
}
at::Tensor& index_fill_tensor(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& value) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  return at::native::index_fill_(self, dim, index, value);
}
at::Tensor& index_put_impl(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                           const at::Tensor& values, bool accumulate, bool unsafe) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  return at::native::_index_put_impl_(self, indices, values, accumulate, unsafe);
}
at::Tensor flip(const at::Tensor& self, at::IntArrayRef dims) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  return at::native::flip(self, dims);
}

at::Tensor roll_dims(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1)
    return roll_dims(self.contiguous().view(self.numel()), shifts, at::IntArrayRef{0}).view(self.sizes());
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  at::Tensor out = at::empty_like(self, self.suggest_memory_format());
  if (out.numel() == 0) return out;
  if (too_many_dims(self)) {
    at::Tensor rolled = self;
    for (size_t i = 0; i < dims.size(); ++i) {
      const int64_t dim = at::maybe_wrap_dim(dims[i], self.dim());
      rolled = roll_dims(around(rolled, dim), shifts[i], at::IntArrayRef{1}).view(self.sizes());
    }
    return out.copy_(rolled);
  }
  std::vector<int> axes;
  for (int64_t dim : dims) axes.push_back(static_cast<int>(at::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/false)));
  ops::roll(queue_for(self), moved(out), moved(self), std::span(shifts.data(), shifts.size()), axes);
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index.Tensor_out", index_out);
  m.impl("_index_put_impl_", index_put_impl);
  m.impl("gather.out", gather_out);
  m.impl("index_copy.out", index_copy_out);
  m.impl("index_select", index_select);
  m.impl("index_select.out", index_select_out);
  m.impl("index_fill_.int_Scalar", index_fill_scalar);
  m.impl("index_fill_.int_Tensor", index_fill_tensor);
  m.impl("take", take);
  m.impl("take.out", take_out);
  m.impl("put_", put_);
  m.impl("flip", flip);
  m.impl("roll", roll_dims);
}

}  // namespace

}  // namespace ocl::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(index_stub, &ocl::aten::index_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(index_put_stub, &ocl::aten::index_put_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(index_copy_stub, &ocl::aten::index_copy_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(index_fill_stub, &ocl::aten::index_fill_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(take_stub, &ocl::aten::take_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(put_stub, &ocl::aten::put_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(flip_stub, &ocl::aten::flip_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(gather_stub, &ocl::aten::gather_kernel)
}  // namespace at::native
