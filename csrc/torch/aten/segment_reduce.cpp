// Reductions of segments of a dimension. ATen's own host code checks; these are the stubs that it calls, made of other
// operators: every position gets the number of its segment, then it is a scatter.
#include "torch/aten/common.h"

#include <ATen/TensorOperators.h>
#include <ATen/native/SegmentReduce.h>
#include <ATen/ops/_segment_reduce_backward_native.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/segment_reduce_native.h>
#include <ATen/ops/where.h>

#include <limits>
#include <vector>

namespace ocl::aten {
namespace {

using at::Tensor;
using at::native::ReductionType;
using Initial = std::optional<at::Scalar>;

struct Segments {
  Tensor number;   // of each element of the data; what belongs to no segment has the number behind the last
  Tensor lengths;  // with a 1 for each dimension behind the one that is reduced
  int64_t count;
};

// `numbers` with data.dim() dimensions.
Tensor beside(const Tensor& numbers, const Tensor& data, int64_t axis) {
  std::vector<int64_t> shape = numbers.sizes().vec();
  shape.resize(static_cast<size_t>(data.dim() - axis - 1) + shape.size(), 1);
  return numbers.view(shape);
}

// starts, ends: [sizes before the axis, segments].
Segments segments_of(const Tensor& data, const Tensor& starts, const Tensor& ends, int64_t axis) {
  at::DimVector rows(data.sizes().begin(), data.sizes().begin() + axis + 1);
  const Tensor position = at::arange(data.size(axis), ends.options()).expand(rows).contiguous();
  const Tensor number = at::searchsorted(ends.contiguous(), position, /*out_int32=*/false, /*right=*/true);
  const int64_t count = ends.size(-1);
  const Tensor known = count ? number.masked_fill(position < starts.narrow(-1, 0, 1), count) : number;
  return {beside(known, data, axis).expand_as(data), beside((ends - starts).contiguous(), data, axis), count};
}

Segments by_lengths(const Tensor& data, const Tensor& lengths, int64_t axis) {
  const Tensor ends = lengths.to(at::kLong).cumsum(-1);
  return segments_of(data, ends - lengths, ends, axis);
}

Segments by_offsets(const Tensor& data, const Tensor& offsets, int64_t axis) {
  const Tensor all = offsets.to(at::kLong);
  const int64_t count = all.size(-1) - 1;
  return segments_of(data, all.narrow(-1, 0, count), all.narrow(-1, 1, count), axis);
}

double identity_of(ReductionType reduction) {
  switch (reduction) {
    case ReductionType::MAX: return -std::numeric_limits<double>::infinity();
    case ReductionType::MIN: return std::numeric_limits<double>::infinity();
    case ReductionType::PROD: return 1;
    default: return 0;
  }
}

const char* name_of(ReductionType reduction) {
  switch (reduction) {
    case ReductionType::MAX: return "amax";
    case ReductionType::MIN: return "amin";
    case ReductionType::PROD: return "prod";
    default: return "sum";
  }
}

// Half types are summed as float32.
at::ScalarType computed_in(const Tensor& data) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(data.scalar_type()), "\"segment_reduce\" not implemented for '",
                              data.scalar_type(), "'");
  return data.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// One element for each segment, beginning with `first`.
Tensor scattered(const Segments& s, const Tensor& values, int64_t axis, const at::Scalar& first,
                 const char* reduction) {
  at::DimVector shape(values.sizes().begin(), values.sizes().end());
  shape[axis] = s.count + 1;
  const Tensor all = at::full(shape, first, values.options()).scatter_reduce(axis, s.number, values, reduction, true);
  return all.narrow(axis, 0, s.count);
}

// Of each element, what its segment has; 0 for those of no segment.
Tensor gathered(const Segments& s, const Tensor& of_segments, int64_t axis) {
  at::DimVector shape(of_segments.sizes().begin(), of_segments.sizes().end());
  shape[axis] = 1;
  const Tensor none = at::full(shape, 0, of_segments.options());
  return at::cat({of_segments, none}, axis).gather(axis, s.number);
}

Tensor reduce(const Segments& s, ReductionType reduction, const Tensor& data, int64_t axis, const Initial& initial) {
  const at::ScalarType type = computed_in(data);
  const at::Scalar first = initial ? *initial : at::Scalar(identity_of(reduction));
  Tensor result = scattered(s, data.to(type), axis, first, name_of(reduction));
  if (reduction == ReductionType::MEAN) {
    const double empty = initial ? initial->toDouble() : std::numeric_limits<double>::quiet_NaN();
    result = at::where(s.lengths == 0, at::full({}, empty, result.options()), result / s.lengths);
  }
  return result.to(data.scalar_type()).contiguous();
}

// d product / d element: the product of the other elements, also where an element is 0 or NaN.
Tensor products_of_others(const Segments& s, const Tensor& data, int64_t axis, const Initial& initial) {
  const Tensor unknown = data.isnan(), bad = unknown.logical_or(data == 0);
  const Tensor good = scattered(s, data.masked_fill(bad, 1), axis, initial ? *initial : at::Scalar(1), "prod");
  const auto count = [&](const Tensor& mask) {
    const Tensor ones = mask.to(data.scalar_type());
    return gathered(s, scattered(s, ones, axis, 0, "sum"), axis) - ones;  // among the others
  };
  const Tensor product = gathered(s, good, axis), others = at::where(bad, product, product / data);
  return others.masked_fill(count(bad) > 0, 0)
      .masked_fill(count(unknown) > 0, std::numeric_limits<double>::quiet_NaN());
}

Tensor gradient(const Segments& s, const Tensor& grad, const Tensor& output, const Tensor& data,
                ReductionType reduction, int64_t axis, const Initial& initial) {
  const at::ScalarType type = computed_in(data);
  const Tensor of_result = gathered(s, grad.to(type), axis);
  switch (reduction) {
    case ReductionType::SUM: return of_result.to(data.scalar_type());
    case ReductionType::MEAN: return gathered(s, grad.to(type) / s.lengths.clamp_min(1), axis).to(data.scalar_type());
    case ReductionType::PROD:
      return (of_result * products_of_others(s, data.to(type), axis, initial)).to(data.scalar_type());
    default: break;
  }
  // The largest or smallest elements of a segment share its gradient: where it is positive, on CPU and CUDA, and
  // otherwise each has the whole of it. So it is here.
  const Tensor chosen = data.isnan().logical_or(data == gathered(s, output, axis)).logical_and(s.number < s.count);
  const Tensor count = scattered(s, chosen.to(type), axis, 0, "sum");
  const Tensor whole = grad.to(type), shared = at::where(whole > 0, whole / count.clamp_min(1), whole);
  return (gathered(s, shared, axis) * chosen).to(data.scalar_type());
}

Tensor reduce_lengths(ReductionType reduction, const Tensor& data, const Tensor& lengths, int64_t axis,
                      const Initial& initial) {
  return reduce(by_lengths(data, lengths, axis), reduction, data, axis, initial);
}

Tensor reduce_offsets(ReductionType reduction, const Tensor& data, const Tensor& offsets, int64_t axis,
                      const Initial& initial) {
  return reduce(by_offsets(data, offsets, axis), reduction, data, axis, initial);
}

Tensor gradient_lengths(const Tensor& grad, const Tensor& output, const Tensor& data, ReductionType reduction,
                        const Tensor& lengths, int64_t axis, const Initial& initial) {
  return gradient(by_lengths(data, lengths, axis), grad, output, data, reduction, axis, initial);
}

Tensor gradient_offsets(const Tensor& grad, const Tensor& output, const Tensor& data, ReductionType reduction,
                        const Tensor& offsets, int64_t axis, const Initial& initial) {
  return gradient(by_offsets(data, offsets, axis), grad, output, data, reduction, axis, initial);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("segment_reduce", at::native::segment_reduce_kernel);
  m.impl("_segment_reduce_backward", at::native::_segment_reduce_backward_kernel);
}

}  // namespace ocl::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_lengths_stub, &ocl::aten::reduce_lengths)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_offsets_stub, &ocl::aten::reduce_offsets)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_lengths_backward_stub, &ocl::aten::gradient_lengths)
REGISTER_PRIVATEUSE1_DISPATCH(_segment_reduce_offsets_backward_stub, &ocl::aten::gradient_offsets)

}  // namespace at::native
