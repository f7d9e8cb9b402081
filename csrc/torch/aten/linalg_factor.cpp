// Cholesky and LU factorizations and what ATen makes of them: triangular systems, solve, inverse, determinants. ATen's
// own host code checks, allocates and copies; these are the stubs that it calls on matrices that lie column after
// column. Diagonal blocks and panels go through ops/linalg, the rest of a large matrix is updated by matrix products.
// Complex matrices run on the CPU.
#include "torch/aten/common.h"
#include "torch/aten/on_cpu.h"
#include "ops/linalg/linalg.h"

#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/native/TransposeType.h>
#include <ATen/ops/_cholesky_solve_helper_ops.h>
#include <ATen/ops/_linalg_det_native.h>
#include <ATen/ops/_linalg_det_ops.h>
#include <ATen/ops/_linalg_slogdet_native.h>
#include <ATen/ops/_linalg_slogdet_ops.h>
#include <ATen/ops/_linalg_solve_ex_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/_linalg_solve_ex_native.h>
#include <ATen/ops/_linalg_solve_ex_ops.h>
#include <ATen/ops/cholesky_inverse_native.h>
#include <ATen/ops/cholesky_inverse_ops.h>
#if __has_include(<ATen/ops/cholesky_native.h>)  // torch.cholesky ended with 2.13
#include <ATen/ops/cholesky_native.h>
#include <ATen/ops/cholesky_ops.h>
#define OCL_CHOLESKY 1
#endif
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_cholesky_ex_native.h>
#include <ATen/ops/linalg_cholesky_ex_ops.h>
#include <ATen/ops/linalg_inv_ex_native.h>
#include <ATen/ops/linalg_inv_ex_ops.h>
#include <ATen/ops/linalg_lu_factor_ex_native.h>
#include <ATen/ops/linalg_lu_factor_ex_ops.h>
#include <ATen/ops/linalg_lu_native.h>
#include <ATen/ops/linalg_lu_ops.h>
#include <ATen/ops/linalg_lu_solve_native.h>
#include <ATen/ops/linalg_lu_solve_ops.h>
#include <ATen/ops/linalg_solve_triangular_native.h>
#include <ATen/ops/linalg_solve_triangular_ops.h>
#include <ATen/ops/lu_unpack_native.h>
#include <ATen/ops/lu_unpack_ops.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/triangular_solve_native.h>
#include <ATen/ops/triangular_solve_ops.h>

namespace ocl::aten {
namespace {

using at::Tensor;
using at::native::TransposeType;

constexpr int64_t kBlock = 64, kPanel = 32;

// [*, n, m] as [batch, n, m]; a view wherever the strides allow one.
Tensor batched(const Tensor& t) { return t.dim() == 3 ? t : t.reshape({-1, t.size(-2), t.size(-1)}); }
// The same of a tensor that is written.
Tensor batched_view(const Tensor& t) {
  if (t.dim() == 3) return t;
  return t.dim() == 2 ? t.unsqueeze(0) : t.flatten(0, -3);
}
Tensor block(const Tensor& t, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return t.narrow(1, row, rows).narrow(2, column, columns);
}

int32_t* int32_address(const Tensor& t) { return static_cast<int32_t*>(address(t)); }

ops::Matrices matrices(const Tensor& t) {
  return {address(t), dtype_of(t.scalar_type()), t.size(0), t.size(1), t.size(2), t.stride(0), t.stride(1),
          t.stride(2)};
}

// rest -= left right
void subtract_product(const Tensor& rest, const Tensor& left, const Tensor& right) {
  if (rest.numel() && left.size(2)) rest.baddbmm_(left, right, 1, -1);
}

// b := t^-1 b for [batch, n, n] and [batch, n, m]
void solve_in_place(const Tensor& t, const Tensor& b, bool upper, bool unit) {
  const int64_t n = t.size(1), m = b.size(2), blocks = ops::ceil_div(n, kBlock);
  for (int64_t step = 0; step < blocks; ++step) {
    const int64_t first = (upper ? blocks - 1 - step : step) * kBlock, size = std::min(kBlock, n - first),
                  next = first + size;
    const Tensor part = block(b, first, size, 0, m);
    ops::solve_triangular(queue_for(b), matrices(block(t, first, size, first, size)), matrices(part), upper, unit);
    if (upper)
      subtract_product(block(b, 0, first, 0, m), block(t, 0, first, first, size), part);
    else
      subtract_product(block(b, next, n - next, 0, m), block(t, next, n - next, first, size), part);
  }
}

// ---- the stubs
void cholesky_kernel(const Tensor& input, const Tensor& info, bool upper) {
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  info.zero_();
  if (input.numel() == 0) return;
  Tensor a = batched_view(input);
  if (upper) a = a.transpose(1, 2);
  const int64_t n = a.size(1);
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t size = std::min(kBlock, n - first), next = first + size, rest = n - next;
    const Tensor diagonal = block(a, first, size, first, size), below = block(a, next, rest, first, size);
    ops::cholesky(queue_for(a), matrices(diagonal), int32_address(info), first);
    if (rest == 0) break;
    // L21 = A21 L11^-T, as L11 L21^T = A21^T
    solve_in_place(diagonal, below.transpose(1, 2), false, false);
    // the triangle on the other side must stay as it is: only blocks on and below the diagonal are updated
    for (int64_t column = next; column < n; column += 4 * kBlock) {
      const int64_t width = std::min(4 * kBlock, n - column), at = column - next;
      const Tensor product = at::matmul(below.narrow(1, at, rest - at), below.narrow(1, at, width).transpose(1, 2));
      block(a, column, n - column, column, width).sub_(product.tril_());
    }
  }
}

Tensor& cholesky_inverse_kernel(Tensor& result, Tensor& /*infos*/, bool upper) {
  if (result.numel() == 0) return result;
  const c10::OptionalDeviceGuard guard(at::device_of(result));
  const Tensor factor = batched(result),
               inverse = at::eye(factor.size(1), result.options()).expand_as(factor).contiguous();
  solve_in_place(factor, inverse, upper, false);
  // (L L^T)^-1 = L^-T L^-1, (U^T U)^-1 = U^-1 U^-T
  const Tensor turned = inverse.transpose(1, 2);
  result.copy_((upper ? at::matmul(inverse, turned) : at::matmul(turned, inverse)).view_as(result));
  return result;
}

void triangular_solve_kernel(const Tensor& a, const Tensor& b, bool left, bool upper, TransposeType transpose,
                             bool unit) {
  if (b.numel() == 0) return;
  const c10::OptionalDeviceGuard guard(at::device_of(b));
  Tensor t = batched(a), x = batched_view(b);
  // ATen means the memory as LAPACK reads it: column after column, also when it hands over a matrix that lies row after
  // row
  if (t.size(2) > 1 && t.stride(2) == 1) t = t.transpose(1, 2);
  if (transpose != TransposeType::NoTranspose) {
    t = t.transpose(1, 2);
    upper = !upper;
  }
  if (!left) {  // x t = b is t^T x^T = b^T
    t = t.transpose(1, 2);
    x = x.transpose(1, 2);
    upper = !upper;
  }
  solve_in_place(t, x, upper, unit);
}

void lu_factor_kernel(const Tensor& input, const Tensor& pivots, const Tensor& infos, bool search) {
  const c10::OptionalDeviceGuard guard(at::device_of(input));
  infos.zero_();
  if (input.numel() == 0) return;
  const Tensor a = batched_view(input);
  const int64_t m = a.size(1), n = a.size(2), steps = std::min(m, n);
  Queue& queue = queue_for(a);
  auto* const pivot = int32_address(pivots);
  for (int64_t first = 0; first < steps; first += kPanel) {
    const int64_t size = std::min(kPanel, steps - first), next = first + size;
    ops::lu(queue, matrices(block(a, first, m - first, first, size)), pivot + first, steps, int32_address(infos), first,
            search);
    if (search) {
      ops::swap_rows(queue, matrices(block(a, 0, m, 0, first)), pivot, steps, first, next);
      ops::swap_rows(queue, matrices(block(a, 0, m, next, n - next)), pivot, steps, first, next);
    }
    const Tensor right = block(a, first, size, next, n - next);
    solve_in_place(block(a, first, size, first, size), right, false, true);
    subtract_product(block(a, next, m - next, next, n - next), block(a, next, m - next, first, size), right);
  }
}

void lu_solve_kernel(const Tensor& lu, const Tensor& pivots, const Tensor& b, TransposeType transpose) {
  if (b.numel() == 0) return;
  const c10::OptionalDeviceGuard guard(at::device_of(b));
  at::DimVector sizes(b.sizes().slice(0, b.dim() - 2));
  const auto with = [&](std::initializer_list<int64_t> last) {
    at::DimVector result = sizes;
    result.append(last);
    return result;
  };
  const int64_t n = lu.size(-1);
  const Tensor factors = batched(lu.expand(with({n, n}))), x = batched_view(b);
  const Tensor exchanges = pivots.expand(with({n})).contiguous();
  auto* const pivot = int32_address(exchanges);
  if (transpose == TransposeType::NoTranspose) {
    ops::swap_rows(queue_for(b), matrices(x), pivot, n, 0, n);
    solve_in_place(factors, x, false, true);
    solve_in_place(factors, x, true, false);
  } else {
    const Tensor turned = factors.transpose(1, 2);
    solve_in_place(turned, x, false, false);
    solve_in_place(turned, x, true, true);
    ops::swap_rows(queue_for(b), matrices(x), pivot, n, 0, n, true);
  }
}

void unpack_pivots_kernel(at::TensorIterator& iterator, int64_t steps, int64_t rows) {
  if (iterator.numel() == 0) return;
  const c10::DeviceGuard guard(iterator.device(0));
  for (int i = 0; i < 2; ++i) runtime::check_memory(iterator.tensor_base(i));
  ops::unpack_pivots(runtime::current_queue(iterator.device(0).index()),
                     static_cast<const int32_t*>(iterator.data_ptr(1)), static_cast<int64_t*>(iterator.data_ptr(0)),
                     iterator.numel(), steps, rows);
}

// ---- ATen's operators on top of them
std::tuple<Tensor&, Tensor&> cholesky_ex_out(const Tensor& self, bool upper, bool check, Tensor& l, Tensor& info) {
  if (self.is_complex()) return on_cpu<at::_ops::linalg_cholesky_ex_L>(self, upper, check, l, info);
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<at::native::structured_linalg_cholesky_ex_out, 2> op(l, info);
  op.meta(self, upper, check);
  op.impl(self, upper, check, op.output(0), op.output(1));
  op.finish();
  return {l, info};
}

#ifdef OCL_CHOLESKY
Tensor cholesky(const Tensor& self, bool upper) {
  return self.is_complex() ? on_cpu<at::_ops::cholesky>(self, upper) : at::native::cholesky(self, upper);
}
Tensor& cholesky_out(const Tensor& self, bool upper, Tensor& out) {
  return self.is_complex() ? on_cpu<at::_ops::cholesky_out>(self, upper, out)
                           : at::native::cholesky_out(self, upper, out);
}
#endif
Tensor cholesky_inverse(const Tensor& self, bool upper) {
  return self.is_complex() ? on_cpu<at::_ops::cholesky_inverse>(self, upper)
                           : at::native::cholesky_inverse(self, upper);
}
Tensor& cholesky_inverse_out(const Tensor& self, bool upper, Tensor& out) {
  return self.is_complex() ? on_cpu<at::_ops::cholesky_inverse_out>(self, upper, out)
                           : at::native::cholesky_inverse_out(self, upper, out);
}

// self [*, n, m], factor [*, n, n] of the same batch
Tensor cholesky_solve_helper(const Tensor& self, const Tensor& factor, bool upper) {
  if (self.is_complex()) return on_cpu<at::_ops::_cholesky_solve_helper>(self, factor, upper);
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const Tensor result = at::native::cloneBatchedColumnMajor(self);
  if (result.numel() == 0) return result;
  const Tensor x = batched_view(result), t = batched(factor), turned = t.transpose(1, 2);
  solve_in_place(upper ? turned : t, x, false, false);
  solve_in_place(upper ? t : turned, x, true, false);
  return result;
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit) {
  if (a.is_complex()) return on_cpu<at::_ops::linalg_solve_triangular>(a, b, upper, left, unit);
  return at::native::linalg_solve_triangular(a, b, upper, left, unit);
}
Tensor& solve_triangular_out(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit, Tensor& out) {
  if (a.is_complex()) return on_cpu<at::_ops::linalg_solve_triangular_out>(a, b, upper, left, unit, out);
  TORCH_CHECK(out.scalar_type() == b.scalar_type(), "expected scalar type ", at::toString(b.scalar_type()),
              " but found ", at::toString(out.scalar_type()));
  return at::native::linalg_solve_triangular_out(a, b, upper, left, unit, out);
}

std::tuple<Tensor&, Tensor&> triangular_solve_out(const Tensor& self, const Tensor& a, bool upper, bool transpose,
                                                  bool unit, Tensor& x, Tensor& m) {
  if (self.is_complex()) return on_cpu<at::_ops::triangular_solve_X>(self, a, upper, transpose, unit, x, m);
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  Out<at::native::structured_triangular_solve_out, 2> op(x, m);
  op.meta(self, a, upper, transpose, unit);
  op.impl(self, a, upper, transpose, unit, op.output(0), op.output(1));
  op.finish();
  return {x, m};
}

std::tuple<Tensor&, Tensor&, Tensor&> lu_factor_ex_out(const Tensor& a, bool pivot, bool check, Tensor& lu,
                                                       Tensor& pivots, Tensor& info) {
  if (a.is_complex()) return on_cpu<at::_ops::linalg_lu_factor_ex_out>(a, pivot, check, lu, pivots, info);
  const c10::OptionalDeviceGuard guard(at::device_of(a));
  Out<at::native::structured_linalg_lu_factor_ex_out, 3> op(lu, pivots, info);
  op.meta(a, pivot, check);
  op.impl(a, pivot, check, op.output(0), op.output(1), op.output(2));
  op.finish();
  return {lu, pivots, info};
}

std::tuple<Tensor&, Tensor&, Tensor&> lu_out(const Tensor& a, bool pivot, Tensor& p, Tensor& l, Tensor& u) {
  if (a.is_complex()) return on_cpu<at::_ops::linalg_lu_out>(a, pivot, p, l, u);
  const c10::OptionalDeviceGuard guard(at::device_of(a));
  Out<at::native::structured_linalg_lu_out, 3> op(p, l, u);
  op.meta(a, pivot);
  op.impl(a, pivot, op.output(0), op.output(1), op.output(2));
  op.finish();
  return {p, l, u};
}

Tensor& lu_solve_out(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left, bool adjoint, Tensor& out) {
  if (lu.is_complex()) return on_cpu<at::_ops::linalg_lu_solve_out>(lu, pivots, b, left, adjoint, out);
  const c10::OptionalDeviceGuard guard(at::device_of(lu));
  Out<at::native::structured_linalg_lu_solve_out, 1> op(out);
  op.meta(lu, pivots, b, left, adjoint);
  op.impl(lu, pivots, b, left, adjoint, op.output(0));
  op.finish();
  return out;
}

std::tuple<Tensor&, Tensor&, Tensor&> lu_unpack_out(const Tensor& lu, const Tensor& pivots, bool data, bool permutation,
                                                    Tensor& p, Tensor& l, Tensor& u) {
  if (lu.is_complex()) return on_cpu<at::_ops::lu_unpack_out>(lu, pivots, data, permutation, p, l, u);
  const c10::OptionalDeviceGuard guard(at::device_of(lu));
  Out<at::native::structured_lu_unpack_out, 3> op(p, l, u);
  op.meta(lu, pivots, data, permutation);
  op.impl(lu, pivots, data, permutation, op.output(0), op.output(1), op.output(2));
  op.finish();
  return {p, l, u};
}

std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> solve_ex_out(const Tensor& a, const Tensor& b, bool left, bool check,
                                                            Tensor& result, Tensor& lu, Tensor& pivots, Tensor& info) {
  if (a.is_complex()) return on_cpu<at::_ops::_linalg_solve_ex_result>(a, b, left, check, result, lu, pivots, info);
  const c10::OptionalDeviceGuard guard(at::device_of(a));
  Out<at::native::structured__linalg_solve_ex_out, 4> op(result, lu, pivots, info);
  op.meta(a, b, left, check);
  op.impl(a, b, left, check, op.output(0), op.output(1), op.output(2), op.output(3));
  op.finish();
  return {result, lu, pivots, info};
}

std::tuple<Tensor&, Tensor&> inv_ex_out(const Tensor& a, bool check, Tensor& inverse, Tensor& info) {
  if (a.is_complex()) return on_cpu<at::_ops::linalg_inv_ex_inverse>(a, check, inverse, info);
  const c10::OptionalDeviceGuard guard(at::device_of(a));
  Out<at::native::structured_linalg_inv_ex_out, 2> op(inverse, info);
  op.meta(a, check);
  op.impl(a, check, op.output(0), op.output(1));
  op.finish();
  return {inverse, info};
}

std::tuple<Tensor&, Tensor&, Tensor&> det_out(const Tensor& a, Tensor& result, Tensor& lu, Tensor& pivots) {
  if (a.is_complex()) return on_cpu<at::_ops::_linalg_det_result>(a, result, lu, pivots);
  const c10::OptionalDeviceGuard guard(at::device_of(a));
  Out<at::native::structured__linalg_det_out, 3> op(result, lu, pivots);
  op.meta(a);
  op.impl(a, op.output(0), op.output(1), op.output(2));
  op.finish();
  return {result, lu, pivots};
}

std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> slogdet_out(const Tensor& a, Tensor& sign, Tensor& logabsdet, Tensor& lu,
                                                           Tensor& pivots) {
  if (a.is_complex()) return on_cpu<at::_ops::_linalg_slogdet_sign>(a, sign, logabsdet, lu, pivots);
  const c10::OptionalDeviceGuard guard(at::device_of(a));
  Out<at::native::structured__linalg_slogdet_out, 4> op(sign, logabsdet, lu, pivots);
  op.meta(a);
  op.impl(a, op.output(0), op.output(1), op.output(2), op.output(3));
  op.finish();
  return {sign, logabsdet, lu, pivots};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> solve_ex(const at::Tensor& a, const at::Tensor& b, bool left,
                                                                    bool check_errors) {
  TORCH_CHECK(a.device() == b.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", a.device(), " and ",
              b.device(), "!");
  return at::compositeexplicitautogradnonfunctional::_linalg_solve_ex(a, b, left, check_errors);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linalg_cholesky_ex.L", cholesky_ex_out);
#ifdef OCL_CHOLESKY
  m.impl("cholesky", cholesky);
  m.impl("cholesky.out", cholesky_out);
#endif
  m.impl("cholesky_inverse", cholesky_inverse);
  m.impl("cholesky_inverse.out", cholesky_inverse_out);
  m.impl("_cholesky_solve_helper", cholesky_solve_helper);
  m.impl("linalg_solve_triangular", solve_triangular);
  m.impl("linalg_solve_triangular.out", solve_triangular_out);
  m.impl("triangular_solve.X", triangular_solve_out);
  m.impl("linalg_lu_factor_ex.out", lu_factor_ex_out);
  m.impl("linalg_lu.out", lu_out);
  m.impl("linalg_lu_solve.out", lu_solve_out);
  m.impl("lu_unpack.out", lu_unpack_out);
  m.impl("_linalg_solve_ex", solve_ex);
  m.impl("_linalg_solve_ex.result", solve_ex_out);
  m.impl("linalg_inv_ex.inverse", inv_ex_out);
  m.impl("_linalg_det.result", det_out);
  m.impl("_linalg_slogdet.sign", slogdet_out);
}

}  // namespace ocl::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(cholesky_stub, &ocl::aten::cholesky_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(cholesky_inverse_stub, &ocl::aten::cholesky_inverse_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(triangular_solve_stub, &ocl::aten::triangular_solve_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(lu_factor_stub, &ocl::aten::lu_factor_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(lu_solve_stub, &ocl::aten::lu_solve_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(unpack_pivots_stub, &ocl::aten::unpack_pivots_kernel)

}  // namespace at::native
