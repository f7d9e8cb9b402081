#include "ops/scatter/scatter.h"

namespace ocl::ops {
namespace {

TensorView at_least_1d(TensorView view) {
  if (view.dims == 0) {
    view.dims = 1;
    view.sizes[0] = view.strides[0] = 1;
  }
  return view;
}

IndexedOperands operands_of(const TensorView& self_, int dim, const TensorView& index_) {
  const TensorView self = at_least_1d(self_), index = at_least_1d(index_);
  if (dim < 0) dim += self.dims;
  IndexedOperands operands{self, {}, index, IndexSide::destination, self.sizes[dim], self.strides[dim]};
  operands.destination.sizes = index.sizes;
  operands.destination.strides[dim] = 0;
  return operands;
}

const ErrorSite& site_of(Combine combine) {
  static const ErrorSite assign("scatter"), accumulate("scatter_reduce");
  return combine == Combine::assign ? assign : accumulate;
}

}  // namespace

void scatter(Queue& queue, const TensorView& self, int dim, const TensorView& index, const TensorView& source,
             Combine combine, bool deterministic) {
  IndexedOperands operands = operands_of(self, dim, index);
  operands.source = at_least_1d(source);
  operands.source.sizes = operands.destination.sizes;
  indexed(queue, operands, combine, deterministic, site_of(combine));
}

void scatter_value(Queue& queue, const TensorView& self, int dim, const TensorView& index, const ElementBits& value,
                   Combine combine, bool deterministic) {
  IndexedOperands operands = operands_of(self, dim, index);
  operands.from_value = true;
  operands.value = value;
  indexed(queue, operands, combine, deterministic, site_of(combine));
}

void index_accumulate(Queue& queue, const TensorView& self_, int dim, const TensorView& index,
                      const TensorView& source_, Combine combine, bool deterministic) {
  static const ErrorSite site("index_add");
  const TensorView self = at_least_1d(self_), source = at_least_1d(source_);
  if (dim < 0) dim += self.dims;
  IndexedOperands operands{self, source, index, IndexSide::destination, self.sizes[dim], self.strides[dim]};
  operands.destination.sizes = source.sizes;
  operands.destination.strides[dim] = 0;
  operands.index.dims = source.dims;
  operands.index.sizes = source.sizes;
  operands.index.strides.fill(0);
  operands.index.strides[dim] = index.dims ? index.strides[0] : 1;
  indexed(queue, operands, combine, deterministic, site);
}

}  // namespace ocl::ops
