// Reductions: sums, extrema and logical reductions over any dimensions.
#include "torch/aten/reduce.h"
#include "torch/aten/many_dims.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/all_meta.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/aminmax_meta.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/max_meta.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/min_meta.h>
#include <ATen/ops/prod_meta.h>
#include <ATen/ops/sum_meta.h>

namespace ocl::aten {

using at::Tensor;
using ops::DimMask;
using ops::Reduction;

static constexpr DimMask all_dims = ~DimMask{0};

DimMask mask_of(const Tensor& self, at::OptionalIntArrayRef dims) {
  if (!dims || dims->empty()) return all_dims;
  return static_cast<DimMask>(at::dim_list_to_bitset(*dims, self.dim()).to_ullong());
}

DimMask mask_of(const Tensor& self, std::optional<int64_t> dim) {
  return dim ? DimMask{1} << at::maybe_wrap_dim(*dim, self.dim()) : all_dims;
}

int64_t extent_of(const Tensor& self, DimMask dims) {
  int64_t n = 1;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (dims >> d & 1) n *= self.size(d);
  return n;
}

at::DimVector reduced_shape(const Tensor& self, DimMask dims, bool keepdim) {
  at::DimVector shape;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!(dims >> d & 1))
      shape.push_back(self.size(d));
    else if (keepdim)
      shape.push_back(1);
  }
  return shape;
}

Tensor new_output(const Tensor& self, DimMask dims, bool keepdim, at::ScalarType dtype) {
  return at::empty(reduced_shape(self, dims, keepdim), self.options().dtype(dtype));
}

Tensor kept_and_reduced(const Tensor& self, DimMask dims) {
  at::DimVector order;
  for (const uint64_t reduced : {0, 1})
    for (int64_t d = 0; d < self.dim(); ++d)
      if ((dims >> d & 1) == reduced) order.push_back(d);
  const int64_t extent = extent_of(self, dims);
  return self.permute(order).contiguous().view({extent == 0 ? 0 : self.numel() / extent, extent});
}

void run_reduction(Reduction op, const Tensor& self, DimMask dims, const Tensor& out, double parameter,
                   const Tensor& index) {
  const Tensor& written = out.defined() ? out : index;
  if (written.numel() == 0) return;
  const c10::OptionalDeviceGuard guard(written.device());
  if (too_many_dims(self) && self.numel() > 0) {
    const auto flat = [](const Tensor& t) { return t.defined() ? at::empty({t.numel()}, t.options()) : t; };
    const Tensor results = flat(out), places = flat(index);
    run_reduction(op, kept_and_reduced(self, dims), 2, results, parameter, places);
    if (out.defined()) out.copy_(results.view(out.sizes()));
    if (index.defined()) index.copy_(places.view(index.sizes()));
    return;
  }
  const bool logical = op == Reduction::all || op == Reduction::any;
  const Tensor read = logical && only_moved(self.scalar_type()) ? self.to(at::kBool) : self;
  ops::reduce(queue_for(written), op, view(read), dims, out.defined() ? view(out) : ops::TensorView{}, parameter,
              index.defined() ? view(index) : ops::TensorView{});
}

namespace {

// ---- sums

// Sums and products in bool ask which elements are not zero, fractions included.
Tensor summand(const Tensor& self, at::ScalarType type) { return type == at::kBool ? self.to(type) : self; }

Tensor& sum_out(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype,
                Tensor& out) {
  Out<at::meta::structured_sum_dim_IntList, 1> op(out);
  op.meta(self, dim, keepdim, dtype);
  run_reduction(Reduction::sum, summand(self, out.scalar_type()), mask_of(self, dim), op.output(0));
  op.finish();
  return out;
}

Tensor& mean_out(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype,
                 Tensor& out) {
  Out<at::meta::structured_mean_dim, 1> op(out);
  op.meta(self, dim, keepdim, dtype);
  const DimMask dims = mask_of(self, dim);
  const at::ScalarType type = dtype.value_or(self.scalar_type());
  TORCH_CHECK(at::canCast(type, out.scalar_type()), "result type ", type, " can't be cast to the desired output type ",
              out.scalar_type());
  run_reduction(Reduction::mean, self, dims, op.output(0), static_cast<double>(extent_of(self, dims)));
  op.finish();
  return out;
}

at::ScalarType sum_type(const Tensor& self, std::optional<at::ScalarType> dtype) {
  if (dtype) return *dtype;
  return at::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type();
}

Tensor& nansum_out(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype,
                   Tensor& out) {
  TORCH_CHECK(!self.is_complex(), "nansum does not support complex inputs");
  const DimMask dims = mask_of(self, dim);
  const at::ScalarType type = dtype.value_or(out.scalar_type());
  TORCH_CHECK(type == out.scalar_type(), "Expected out tensor to have dtype ", type, ", but got ", out.scalar_type(),
              " instead");
  if (self.is_floating_point() && !out.is_floating_point()) not_implemented_for("nansum", out.scalar_type());
  at::native::resize_output(out, reduced_shape(self, dims, keepdim));
  at::assert_no_internal_overlap(out);
  run_reduction(self.is_floating_point() ? Reduction::nansum : Reduction::sum, self, dims, out);
  return out;
}

Tensor nansum(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype) {
  Tensor out = new_output(self, mask_of(self, dim), keepdim, sum_type(self, dtype));
  return nansum_out(self, dim, keepdim, out.scalar_type(), out);
}

Tensor& prod_out(const Tensor& self, int64_t dim, bool keepdim, std::optional<at::ScalarType> dtype, Tensor& out) {
  Out<at::meta::structured_prod_dim_int, 1> op(out);
  op.meta(self, dim, keepdim, dtype);
  run_reduction(Reduction::prod, summand(self, out.scalar_type()), mask_of(self, std::optional(dim)), op.output(0));
  op.finish();
  return out;
}

Tensor prod(const Tensor& self, std::optional<at::ScalarType> dtype) {
  Tensor out = new_output(self, all_dims, false, sum_type(self, dtype));
  run_reduction(Reduction::prod, summand(self, out.scalar_type()), all_dims, out);
  return out;
}

Tensor count_nonzero(const Tensor& self, at::IntArrayRef dim) {
  const DimMask dims = mask_of(self, at::OptionalIntArrayRef(dim));
  Tensor out = new_output(self, dims, false, at::kLong);
  run_reduction(Reduction::count_nonzero, self, dims, out);
  return out;
}

// ---- extrema

template <class Meta, Reduction reduction>
Tensor& extremum_out(const Tensor& self, at::IntArrayRef dim, bool keepdim, Tensor& out) {
  Out<Meta, 1> op(out);
  op.meta(self, dim, keepdim);
  run_reduction(reduction, self, mask_of(self, at::OptionalIntArrayRef(dim)), op.output(0));
  op.finish();
  return out;
}

template <class Meta, Reduction reduction>
Tensor& arg_out(const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& out) {
  Out<Meta, 1> op(out);
  op.meta(self, dim, keepdim);
  run_reduction(reduction, self, mask_of(self, dim), Tensor(), 0, op.output(0));
  op.finish();
  return out;
}

template <class Meta, Reduction reduction>
std::tuple<Tensor&, Tensor&> extremum_dim_out(const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                                              Tensor& indices) {
  Out<Meta, 2> op(values, indices);
  op.meta(self, dim, keepdim);
  run_reduction(reduction, self, mask_of(self, std::optional(dim)), op.output(0), 0, op.output(1));
  op.finish();
  return {values, indices};
}

template <Reduction reduction>
Tensor extremum_all(const Tensor& self);

template <Reduction reduction>
Tensor& extremum_all_out(const Tensor& self, Tensor& out) {
  const char* name = reduction == Reduction::amax ? "max" : "min";
  TORCH_CHECK(self.numel() > 0, name,
              "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
              "'dim' argument.");
  if (self.is_complex()) not_implemented_for(reduction == Reduction::amax ? "max_all" : "min_all", self.scalar_type());
  TORCH_CHECK(at::canCast(self.scalar_type(), out.scalar_type()), "result type ", self.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  at::native::resize_output(out, {});
  if (self.scalar_type() != out.scalar_type()) return out.copy_(extremum_all<reduction>(self));
  run_reduction(reduction, self, all_dims, out);
  return out;
}

template <Reduction reduction>
Tensor extremum_all(const Tensor& self) {
  Tensor out = at::empty({}, self.options());
  return extremum_all_out<reduction>(self, out);
}

std::tuple<Tensor&, Tensor&> aminmax_out(const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& min,
                                         Tensor& max) {
  Out<at::meta::structured_aminmax, 2> op(min, max);
  op.meta(self, dim, keepdim);
  run_reduction(Reduction::amin, self, mask_of(self, dim), op.output(0));
  run_reduction(Reduction::amax, self, mask_of(self, dim), op.output(1));
  op.finish();
  return {min, max};
}

// ---- logical

template <class Meta, Reduction reduction>
Tensor& logical_out(const Tensor& self, Tensor& out) {
  Out<Meta, 1> op(out);
  op.meta(self);
  run_reduction(reduction, self, all_dims, op.output(0));
  op.finish();
  return out;
}

template <class Meta, Reduction reduction>
Tensor& logical_dim_out(const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  Out<Meta, 1> op(out);
  op.meta(self, dim, keepdim);
  run_reduction(reduction, self, mask_of(self, std::optional(dim)), op.output(0));
  op.finish();
  return out;
}

// An empty list of dimensions reduces nothing here.
DimMask logical_mask(const Tensor& self, at::OptionalIntArrayRef dim) {
  return dim && dim->empty() ? 0 : mask_of(self, dim);
}

template <class Meta, Reduction reduction>
Tensor& logical_dims_out(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, Tensor& out) {
  Out<Meta, 1> op(out);
  op.meta(self, dim, keepdim);
  run_reduction(reduction, self, logical_mask(self, dim), op.output(0));
  op.finish();
  return out;
}

template <class Meta, Reduction reduction>
Tensor logical_dims(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
  const at::ScalarType type = self.scalar_type() == at::kByte ? at::kByte : at::kBool;
  Tensor out = new_output(self, logical_mask(self, dim), keepdim, type);
  return logical_dims_out<Meta, reduction>(self, dim, keepdim, out);
}

// ---- made of the above

Tensor trace(const Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return self.diagonal().sum();
}

bool equal(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Cannot compare two tensors on different devices. Got: ", self.device(),
              " and ", other.device());
  TORCH_CHECK(self.dtype() == other.dtype(), "Expected all tensors to have the same dtype, but found ", self.dtype(),
              " and ", other.dtype());
  if (!self.sizes().equals(other.sizes())) return false;
  return self.numel() == 0 || at::eq(self, other).all().item<bool>();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using namespace at::meta;
  m.impl("sum.IntList_out", sum_out);
  m.impl("mean.out", mean_out);
  m.impl("nansum", nansum);
  m.impl("nansum.out", nansum_out);
  m.impl("prod.int_out", prod_out);
  m.impl("prod", prod);
  m.impl("count_nonzero.dim_IntList", count_nonzero);
  m.impl("amax.out", extremum_out<structured_amax, Reduction::amax>);
  m.impl("amin.out", extremum_out<structured_amin, Reduction::amin>);
  m.impl("argmax.out", arg_out<structured_argmax, Reduction::argmax>);
  m.impl("argmin.out", arg_out<structured_argmin, Reduction::argmin>);
  m.impl("max.dim_max", extremum_dim_out<structured_max_dim, Reduction::argmax>);
  m.impl("min.dim_min", extremum_dim_out<structured_min_dim, Reduction::argmin>);
  m.impl("max", extremum_all<Reduction::amax>);
  m.impl("min", extremum_all<Reduction::amin>);
  m.impl("max.unary_out", extremum_all_out<Reduction::amax>);
  m.impl("min.unary_out", extremum_all_out<Reduction::amin>);
  m.impl("aminmax.out", aminmax_out);
  m.impl("all.all_out", logical_out<structured_all, Reduction::all>);
  m.impl("any.all_out", logical_out<structured_any, Reduction::any>);
  m.impl("all.out", logical_dim_out<structured_all_dim, Reduction::all>);
  m.impl("any.out", logical_dim_out<structured_any_dim, Reduction::any>);
  m.impl("all.dims_out", logical_dims_out<structured_all_dims, Reduction::all>);
  m.impl("any.dims_out", logical_dims_out<structured_any_dims, Reduction::any>);
  m.impl("all.dims", logical_dims<structured_all_dims, Reduction::all>);
  m.impl("any.dims", logical_dims<structured_any_dims, Reduction::any>);
  m.impl("trace", trace);
  m.impl("equal", equal);
}

}  // namespace ocl::aten
