// Scatter, index_add and index_reduce.
#include "ops/scatter/scatter.h"

#include "torch/aten/common.h"
#include "torch/aten/many_dims.h"
#include "torch/aten/element_bits.h"

#include <ATen/Context.h>
#include <ATen/native/TensorAdvancedIndexing.h>
#include <ATen/ops/index_add_meta.h>
#include <ATen/ops/index_reduce_meta.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scatter_add_native.h>
#include <ATen/ops/scatter_native.h>
#include <ATen/ops/scatter_reduce_native.h>
#include <ATen/ops/zeros_like.h>

namespace ocl::aten {
namespace {

bool deterministic() { return at::globalContext().deterministicAlgorithms(); }

using at::native::ReductionType;

ops::Combine combine_of(ReductionType reduction) {
  switch (reduction) {
    case ReductionType::SUM:
    case ReductionType::MEAN: return ops::Combine::add;  // ATen divides by the counts afterwards
    case ReductionType::PROD: return ops::Combine::multiply;
    case ReductionType::MIN: return ops::Combine::minimum;
    default: return ops::Combine::maximum;
  }
}

void scatter_tensor(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                    ops::Combine combine) {
  if (index.numel() == 0) return;
  if (combine == ops::Combine::minimum || combine == ops::Combine::maximum)
    TORCH_CHECK(!self.is_complex(), "scatter_reduce: amin and amax are not defined for complex tensors");
  if (too_many_dims(self))
    return change_around(within(self, index.sizes(), dim), dim, [&](const at::Tensor& three) {
      const at::Tensor values = within(source, index.sizes(), dim).narrow(dim, 0, index.size(dim));
      scatter_tensor(three, 1, around(index, dim), around(values, dim), combine);
    });
  const auto element = combine == ops::Combine::assign ? moved : view;
  ops::scatter(queue_for(self), element(self), static_cast<int>(dim), view(index), element(source), combine,
               deterministic());
}

void scatter_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
  scatter_tensor(self, dim, index, source, ops::Combine::assign);
}
void scatter_add_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
  scatter_tensor(self, dim, index, source, ops::Combine::add);
}
void scatter_reduce_kernel(const at::Tensor& self, const int64_t dim, const at::Tensor& index, const at::Tensor& source,
                           const ReductionType& reduction) {
  scatter_tensor(self, dim, index, source, combine_of(reduction));
}

void scatter_number(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value,
                    ops::Combine combine) {
  if (index.numel() == 0) return;
  if (too_many_dims(self))
    return change_around(within(self, index.sizes(), dim), dim, [&](const at::Tensor& three) {
      scatter_number(three, 1, around(index, dim), value, combine);
    });
  const auto element = combine == ops::Combine::assign ? moved : view;
  ops::scatter_value(queue_for(self), element(self), static_cast<int>(dim), view(index),
                     element_bits(value, self.scalar_type()), combine, deterministic());
}
void scatter_fill_kernel(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value) {
  scatter_number(self, dim, index, value, ops::Combine::assign);
}
void scatter_scalar_reduce_kernel(const at::Tensor& self, const int64_t dim, const at::Tensor& index,
                                  const at::Scalar& value, const ReductionType& reduction) {
  scatter_number(self, dim, index, value, combine_of(reduction));
}

// ---- structured operators with a native class that CPU and CUDA share

struct ScatterSrc : Out<at::native::structured_scatter_src_out, 1> {
  using Out::Out;
};
at::Tensor& scatter_src_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                            at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  ScatterSrc op(out);
  op.meta(self, dim, index, src);
  op.impl(self, dim, index, src, op.output(0));
  op.finish();
  return out;
}

struct ScatterValue : Out<at::native::structured_scatter_value_out, 1> {
  using Out::Out;
};
at::Tensor& scatter_value_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value,
                              at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  ScatterValue op(out);
  op.meta(self, dim, index, value);
  op.impl(self, dim, index, value, op.output(0));
  op.finish();
  return out;
}

struct ScatterReduce : Out<at::native::structured_scatter_reduce_out, 1> {
  using Out::Out;
};
at::Tensor& scatter_reduce_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                               c10::string_view reduce, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  ScatterReduce op(out);
  op.meta(self, dim, index, src, reduce);
  op.impl(self, dim, index, src, reduce, op.output(0));
  op.finish();
  return out;
}

struct ScatterValueReduce : Out<at::native::structured_scatter_value_reduce_out, 1> {
  using Out::Out;
};
at::Tensor& scatter_value_reduce_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                                     const at::Scalar& value, c10::string_view reduce, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  ScatterValueReduce op(out);
  op.meta(self, dim, index, value, reduce);
  op.impl(self, dim, index, value, reduce, op.output(0));
  op.finish();
  return out;
}

struct ScatterAdd : Out<at::native::structured_scatter_add, 1> {
  using Out::Out;
};
at::Tensor& scatter_add_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                            at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  ScatterAdd op(out);
  op.meta(self, dim, index, src);
  op.impl(self, dim, index, src, op.output(0));
  op.finish();
  return out;
}

struct ScatterReduceTwo : Out<at::native::structured_scatter_reduce_two, 1> {
  using Out::Out;
};
at::Tensor& scatter_reduce_two_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                                   c10::string_view reduce, bool include_self, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  ScatterReduceTwo op(out);
  op.meta(self, dim, index, src, reduce, include_self);
  op.impl(self, dim, index, src, reduce, include_self, op.output(0));
  op.finish();
  return out;
}

// ---- index_add, index_reduce: meta only

void accumulate_rows(const at::Tensor& out, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                     ops::Combine combine) {
  if (index.numel() == 0 || source.numel() == 0) return;
  if (too_many_dims(out))
    return change_around(
        out, dim, [&](const at::Tensor& three) { accumulate_rows(three, 1, index, around(source, dim), combine); });
  ops::index_accumulate(queue_for(out), view(out), static_cast<int>(dim), view(index), view(source), combine,
                        deterministic());
}

struct IndexAdd : Out<at::meta::structured_index_add, 1> {
  using Out::Out;
};
at::Tensor& index_add_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                          const at::Scalar& alpha, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  IndexAdd op(out);
  const auto precomputed = op.meta(self, dim, index, source, alpha);
  const at::Tensor& result = op.output(0);
  if (!result.is_same(self)) result.copy_(self);
  const bool scaled = alpha.isComplex() || alpha.toDouble() != 1;
  accumulate_rows(result, precomputed.dim, index, scaled ? source.mul(alpha).to(source.scalar_type()) : source,
                  ops::Combine::add);
  op.finish();
  return out;
}

// The value that leaves the other operand of the reduction unchanged.
at::Scalar identity_of(ReductionType reduction, at::ScalarType type) {
  if (reduction == ReductionType::PROD) return 1;
  if (reduction == ReductionType::SUM || reduction == ReductionType::MEAN) return 0;
  const bool minimum = reduction == ReductionType::MIN;
  if (at::isFloatingType(type))
    return minimum ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  at::Scalar result;
  AT_DISPATCH_INTEGRAL_TYPES(type, "index_reduce", [&] {
    result =
        static_cast<int64_t>(minimum ? std::numeric_limits<scalar_t>::max() : std::numeric_limits<scalar_t>::lowest());
  });
  return result;
}

struct IndexReduce : Out<at::meta::structured_index_reduce, 1> {
  using Out::Out;
};
at::Tensor& index_reduce_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                             c10::string_view reduce, bool include_self, at::Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  TORCH_WARN_ONCE("index_reduce() is in beta and the API may change at any time.");
  IndexReduce op(out);
  const auto precomputed = op.meta(self, dim, index, source, reduce, include_self);
  dim = precomputed.dim;
  const ReductionType reduction = at::native::get_operator_enum(reduce, true);
  const at::Tensor& result = op.output(0);
  if (!result.is_same(self)) result.copy_(self);
  if (!include_self && index.numel() > 0)
    result.index_fill_(dim, index.to(at::kLong), identity_of(reduction, result.scalar_type()));
  accumulate_rows(result, dim, index, source, combine_of(reduction));
  if (reduction == ReductionType::MEAN) {
    at::Tensor counts = include_self ? at::ones_like(result) : at::zeros_like(result);
    counts.index_add_(dim, index, at::ones_like(source));
    counts.masked_fill_(counts.eq(0), 1);
    if (at::isIntegralType(result.scalar_type(), true))
      result.div_(counts, "floor");
    else
      result.div_(counts);
  }
  op.finish();
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("scatter.src_out", scatter_src_out);
  m.impl("scatter.value_out", scatter_value_out);
  m.impl("scatter.reduce_out", scatter_reduce_out);
  m.impl("scatter.value_reduce_out", scatter_value_reduce_out);
  m.impl("scatter_add.out", scatter_add_out);
  m.impl("scatter_reduce.two_out", scatter_reduce_two_out);
  m.impl("index_add.out", index_add_out);
  m.impl("index_reduce.out", index_reduce_out);
}

}  // namespace
}  // namespace ocl::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(scatter_stub, &ocl::aten::scatter_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(scatter_fill_stub, &ocl::aten::scatter_fill_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(scatter_add_stub, &ocl::aten::scatter_add_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(scatter_reduce_stub, &ocl::aten::scatter_reduce_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(scatter_scalar_reduce_stub, &ocl::aten::scatter_scalar_reduce_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(scatter_reduce_two_stub, &ocl::aten::scatter_reduce_kernel)
}  // namespace at::native
