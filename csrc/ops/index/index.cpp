#include "ops/index/index.h"

#include "ops/elementwise/elementwise.h"

#include <bit>
#include <optional>
#include <stdexcept>
#include <vector>

namespace ocl::ops {
namespace {

int wrap_dim(int dim, int dims) { return dim < 0 ? dim + dims : dim; }

// A 0-dimensional view as one of a single element, so that it has a dimension to index.
TensorView at_least_1d(TensorView view) {
  if (view.dims == 0) {
    view.dims = 1;
    view.sizes[0] = view.strides[0] = 1;
  }
  return view;
}

// `view` with the sizes of `shape`, not moving in dimension `dim`.
TensorView fixed_in(TensorView view, int dim, const TensorView& shape) {
  view.sizes = shape.sizes;
  view.strides[dim] = 0;
  return view;
}

// A 1-dimensional index laid along dimension `dim` of `shape`.
TensorView along(const TensorView& index, int dim, const TensorView& shape) {
  TensorView view = index;
  const int64_t stride = index.dims ? index.strides[0] : 1;
  view.dims = shape.dims;
  view.sizes = shape.sizes;
  view.strides.fill(0);
  view.strides[dim] = stride;
  return view;
}

TensorView with_shape(TensorView view, const TensorView& shape) {
  view.dims = shape.dims;
  view.sizes = shape.sizes;
  return view;
}

// The shape of `self` with `count` elements in dimension `dim`.
TensorView resized(TensorView self, int dim, int64_t count) {
  self.sizes[dim] = count;
  return self;
}

}  // namespace

void index_select(Queue& queue, const TensorView& out_, const TensorView& self_, int dim, const TensorView& index) {
  static const ErrorSite site("index_select");
  const TensorView out = at_least_1d(out_), self = at_least_1d(self_);
  dim = wrap_dim(dim, self.dims);
  IndexedOperands operands{
      out, fixed_in(self, dim, out), along(index, dim, out), IndexSide::source, self.sizes[dim], self.strides[dim]};
  indexed(queue, operands, Combine::assign, false, site);
}

void gather(Queue& queue, const TensorView& out_, const TensorView& self_, int dim, const TensorView& index_) {
  static const ErrorSite site("gather");
  const TensorView out = at_least_1d(out_), self = at_least_1d(self_);
  dim = wrap_dim(dim, self.dims);
  IndexedOperands operands{out,
                           fixed_in(self, dim, out),
                           with_shape(at_least_1d(index_), out),
                           IndexSide::source,
                           self.sizes[dim],
                           self.strides[dim]};
  indexed(queue, operands, Combine::assign, false, site);
}

void take(Queue& queue, const TensorView& out, const TensorView& self, const TensorView& index) {
  static const ErrorSite site("take");
  TensorView source = with_shape(self, out);
  source.strides.fill(0);
  indexed(queue, {out, source, index, IndexSide::source, self.numel(), 1, true}, Combine::assign, false, site);
}

void put(Queue& queue, const TensorView& self, const TensorView& index, const TensorView& source, bool accumulate,
         bool deterministic) {
  static const ErrorSite site("put_");
  TensorView destination = with_shape(self, index);
  destination.strides.fill(0);
  indexed(queue, {destination, source, index, IndexSide::destination, self.numel(), 1, true},
          accumulate ? Combine::add : Combine::assign, deterministic, site);
}

void index_copy(Queue& queue, const TensorView& self_, int dim, const TensorView& index, const TensorView& source_,
                bool deterministic) {
  const TensorView self = at_least_1d(self_), source = at_least_1d(source_);
  dim = wrap_dim(dim, self.dims);
  index_copy(queue, {fixed_in(self, dim, source), self.sizes[dim], self.strides[dim]}, along(index, dim, source),
             source, deterministic);
}

void index_copy(Queue& queue, const IndexedDimension& self, const TensorView& index, const TensorView& source,
                bool deterministic) {
  static const ErrorSite site("index_copy");
  indexed(queue, {self.self, source, index, IndexSide::destination, self.size, self.stride}, Combine::assign,
          deterministic, site);
}

void index_fill(Queue& queue, const TensorView& self_, int dim, const TensorView& index, const ElementBits& value) {
  const TensorView self = at_least_1d(self_);
  dim = wrap_dim(dim, self.dims);
  const TensorView shape = resized(self, dim, index.numel());
  index_fill(queue, {fixed_in(self, dim, shape), self.sizes[dim], self.strides[dim]}, along(index, dim, shape), value);
}

void index_fill(Queue& queue, const IndexedDimension& self, const TensorView& index, const ElementBits& value) {
  static const ErrorSite site("index_fill_");
  IndexedOperands operands{self.self, {}, index, IndexSide::destination, self.size, self.stride};
  operands.wraps = true;
  operands.from_value = true;
  operands.value = value;
  indexed(queue, operands, Combine::assign, false, site);
}

namespace {

// One index tensor for the engine: the only one, or offsets combined in `scratch`.
void set_index(Queue& queue, IndexedOperands& operands, const AdvancedIndex& from, std::optional<Workspace>& scratch,
               const ErrorSite& site) {
  if (from.indices.size() == 1) {
    operands.index = from.indices[0];
    operands.limit = from.sizes[0];
    operands.step = from.strides[0];
    operands.wraps = true;
    return;
  }
  // Offsets are made only over dimensions in which some index moves.
  const TensorView& shape = from.self;
  std::vector<int64_t> sizes;
  std::vector<int> dims;
  for (int d = 0; d < shape.dims; ++d) {
    bool moves = false;
    for (const TensorView& index : from.indices) moves = moves || index.strides[d] != 0;
    if (!moves) continue;
    dims.push_back(d);
    sizes.push_back(shape.sizes[d]);
  }
  std::vector<TensorView> indices;
  for (TensorView index : from.indices) {
    const TensorView whole = index;
    index.dims = static_cast<int>(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
      index.sizes[i] = sizes[i];
      index.strides[i] = whole.strides[dims[i]];
    }
    indices.push_back(index);
  }
  TensorView offsets = TensorView::contiguous(nullptr, DType::int64, sizes);
  scratch.emplace(queue, static_cast<size_t>(offsets.numel()) * sizeof(int64_t));
  offsets.data = scratch->data();
  combine_indices(queue, offsets, indices, from.sizes, from.strides, site);
  operands.index = with_shape(offsets, shape);
  operands.index.strides.fill(0);
  for (size_t i = 0; i < dims.size(); ++i) operands.index.strides[dims[i]] = offsets.strides[i];
  operands.limit = INT64_MAX;
  operands.step = 1;
  operands.checked = true;
}

}  // namespace

void index(Queue& queue, const TensorView& out, const AdvancedIndex& from) {
  static const ErrorSite site("index");
  if (out.numel() == 0) return;
  IndexedOperands operands{out, from.self, {}, IndexSide::source};
  std::optional<Workspace> scratch;
  set_index(queue, operands, from, scratch, site);
  indexed(queue, operands, Combine::assign, false, site);
}

void index_put(Queue& queue, const AdvancedIndex& to, const TensorView& values, bool accumulate, bool deterministic) {
  static const ErrorSite site("index_put_");
  if (to.self.numel() == 0) return;
  IndexedOperands operands{to.self, values, {}, IndexSide::destination};
  std::optional<Workspace> scratch;
  set_index(queue, operands, to, scratch, site);
  indexed(queue, operands, accumulate ? Combine::add : Combine::assign, deterministic, site);
}

void copy_strided(Queue& queue, const TensorView& destination, const TensorView& source) {
  // As bits: whole numbers of the same width, of 16 bytes two.
  static const ElementwiseRow& copy = elementwise_row("copy");
  const auto bits = [](TensorView view) {
    constexpr DType types[] = {DType::int8, DType::int16, DType::int32, DType::int64};
    const size_t bytes = size_of(view.dtype);
    view.dtype = types[std::min(std::countr_zero(bytes), 3)];
    if (bytes <= 8) return view;
    for (int d = 0; d < view.dims; ++d) view.strides[d] *= 2;
    view.sizes[view.dims] = 2, view.strides[view.dims] = 1;
    ++view.dims;
    return view;
  };
  if (destination.dims == max_dims && size_of(destination.dtype) > 8) {  // no place for another dimension
    static const ErrorSite site("copy");
    return indexed(queue, {destination, source, {}}, Combine::assign, false, site);
  }
  TensorView to = bits(destination), from = bits(source);
  // In ascending order of the destination.
  for (int d = 0; d < to.dims; ++d) {
    if (to.strides[d] >= 0 || to.sizes[d] == 0) continue;
    for (TensorView* view : {&to, &from}) {
      view->data = static_cast<char*>(view->data) +
                   (to.sizes[d] - 1) * view->strides[d] * static_cast<int64_t>(size_of(to.dtype));
      view->strides[d] = -view->strides[d];
    }
  }
  elementwise(queue, copy, to.dtype, to, {from});
}

void flip(Queue& queue, const TensorView& out, const TensorView& self, std::span<const int> dims) {
  if (out.numel() == 0) return;
  TensorView source = self;
  char* data = static_cast<char*>(self.data);
  for (int dim : dims) {
    const int d = wrap_dim(dim, self.dims);
    data += (self.sizes[d] - 1) * self.strides[d] * static_cast<int64_t>(size_of(self.dtype));
    source.strides[d] = -self.strides[d];
  }
  source.data = data;
  copy_strided(queue, out, source);
}

}  // namespace ocl::ops
