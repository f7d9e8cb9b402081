// Operators of sparse tensors whose code for the CPU reads memory through pointers, on the device: indices, sums of
// duplicates, sums, and products with dense matrices.
#include "torch/aten/on_cpu.h"
#include "torch/aten/sparse.h"
#include "ops/sparse/sparse.h"

#include <ATen/ExpandUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_convert_indices_from_coo_to_csr.h>
#include <ATen/ops/_convert_indices_from_csr_to_coo.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_to_sparse_csc_ops.h>
#include <ATen/ops/_to_sparse_csr_ops.h>
#include <ATen/ops/_validate_compressed_sparse_indices.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/addmv_ops.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sparse_mask_ops.h>
#include <ATen/ops/sparse_sampled_addmm_ops.h>
#include <ATen/ops/zeros.h>

namespace ocl::aten {
namespace {

using at::Scalar;
using at::Tensor;

template <class Operator, class... Arguments>
decltype(auto) sparse_fallback(Arguments&&... arguments) {
  return at::native::call_fallback_fn<&sparse_on_cpu, Operator>::call(std::forward<Arguments>(arguments)...);
}

// ATen's conversions of dense tensors consist of other operators too.
void on_dense_parts(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.callBoxedForDispatchKey(c10::DispatchKey::CPU, *stack);
}

// ---- indices

// Where each of `size` rows begins, and where the last ends, in sorted row numbers.
Tensor& rows_to_compressed(const Tensor& rows, int64_t size, bool out_int32, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(rows));
  TORCH_CHECK(rows.dim() <= 1, "Input is supposed to be a vector, but got ", rows.dim(), " dimensional tensor.");
  const Tensor begins = at::arange(size + 1, rows.options());
  at::native::resize_output(out, {size + 1});
  return out.copy_(at::searchsorted(rows.contiguous(), begins, out_int32));
}

Tensor& compressed_to_rows(const Tensor& compressed, const Tensor& plain, bool out_int32, bool transpose, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(compressed));
  if (compressed.dim() != 1)
    return on_cpu<at::_ops::_convert_indices_from_csr_to_coo_out>(compressed, plain, out_int32, transpose, out);
  const Tensor rows = at::searchsorted(compressed.contiguous(), at::arange(plain.numel(), compressed.options()),
                                       out_int32, /*right=*/true)
                          .sub_(1);
  at::native::resize_output(out, {2, plain.numel()});
  out.select(0, transpose ? 1 : 0).copy_(rows);
  out.select(0, transpose ? 0 : 1).copy_(plain);
  return out;
}

// The checks end on the host in any case, with an error or without one.
void validate_compressed(bool is_crow, const Tensor& compressed, const Tensor& plain, int64_t compressed_size,
                         int64_t plain_size, int64_t nnz) {
  at::_validate_compressed_sparse_indices(is_crow, compressed.cpu(), plain.cpu(), compressed_size, plain_size, nnz);
}

// Between compressed rows and columns by way of coordinates.
template <at::Layout from, class To>
Tensor flipped(const Tensor& self, std::optional<int64_t> dense_dim, To to) {
  if (self.layout() == from && self.dim() == 2 && !dense_dim) return to(self.to_sparse());
  return Tensor();
}
Tensor to_csr(const Tensor& self, std::optional<int64_t> dense_dim) {
  const Tensor result = flipped<at::kSparseCsc>(self, dense_dim, [](const Tensor& t) { return t.to_sparse_csr(); });
  return result.defined() ? result : sparse_fallback<at::_ops::_to_sparse_csr>(self, dense_dim);
}
Tensor to_csc(const Tensor& self, std::optional<int64_t> dense_dim) {
  const Tensor result = flipped<at::kSparseCsr>(self, dense_dim, [](const Tensor& t) { return t.to_sparse_csc(); });
  return result.defined() ? result : sparse_fallback<at::_ops::_to_sparse_csc>(self, dense_dim);
}

// Positions of the sparse dimensions as one number each.
Tensor flat_positions(const Tensor& indices, at::IntArrayRef sizes) {
  Tensor flat = at::zeros({indices.size(1)}, indices.options());
  for (int64_t d = 0; d < indices.size(0); ++d) flat.mul_(sizes[static_cast<size_t>(d)]).add_(indices.select(0, d));
  return flat;
}

Tensor coalesce(const Tensor& self) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const Tensor indices = self._indices(), values = self._values();
  const int64_t nnz = indices.size(1);
  if (self.is_coalesced() || nnz < 2) {
    Tensor same = self.clone();
    same._coalesced_(true);
    return same;
  }
  const auto [sorted, order] = flat_positions(indices, self.sizes()).sort(/*stable=*/true, 0, false);
  Tensor begins = at::ones({nnz}, indices.options().dtype(at::kBool));
  begins.slice(0, 1).copy_(sorted.slice(0, 1).ne(sorted.slice(0, 0, -1)));
  const Tensor firsts = order.index_select(0, begins.nonzero().flatten());
  const Tensor group = begins.cumsum(0).sub_(1);
  at::DimVector sizes(values.sizes());
  sizes[0] = firsts.size(0);
  const bool logical = values.scalar_type() == at::kBool;  // true and true is true
  const Tensor read = logical ? values.to(at::kByte) : values;
  Tensor sums = at::zeros(sizes, read.options()).index_add_(0, group, read.index_select(0, order));
  if (logical) sums = sums.ne(0);
  return at::_sparse_coo_tensor_unsafe(indices.index_select(1, firsts), sums, self.sizes(), self.options(), true);
}

// Elements of a dense tensor where the mask has some.
Tensor sparse_mask(const Tensor& self, const Tensor& mask) {
  if (self.layout() != at::kStrided || mask.layout() != at::kSparse || self.sizes() != mask.sizes() ||
      mask.sparse_dim() == 0 || self.device() != mask.device())
    return sparse_fallback<at::_ops::sparse_mask>(self, mask);
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const auto sparse = static_cast<size_t>(mask.sparse_dim());
  at::DimVector sizes{c10::multiply_integers(self.sizes().slice(0, sparse))};
  sizes.append(self.sizes().begin() + mask.sparse_dim(), self.sizes().end());
  const Tensor values = self.reshape(sizes).index_select(0, flat_positions(mask._indices(), mask.sizes()));
  return at::_sparse_coo_tensor_unsafe(mask._indices().clone(), values, self.sizes(),
                                       mask.options().dtype(self.dtype()), mask.is_coalesced());
}

// Elements of a product that both factors have, or times a number. The other cases are the CPU's.
Tensor product_of_values(const Tensor& self, const Tensor& other) {
  if (other.layout() == at::kStrided && other.dim() == 0)
    return at::_sparse_coo_tensor_unsafe(self._indices().clone(), self._values().mul(other), self.sizes(),
                                         self.options(), self.is_coalesced());
  const Tensor a = self.coalesce(), b = other.coalesce();
  const Tensor mine = flat_positions(a._indices(), a.sizes()), theirs = flat_positions(b._indices(), b.sizes());
  const Tensor place = at::searchsorted(theirs, mine).clamp_max_(theirs.size(0) - 1);
  const Tensor both = theirs.index_select(0, place).eq(mine).nonzero().flatten();
  const Tensor values = a._values().index_select(0, both).mul(b._values().index_select(0, place.index_select(0, both)));
  return at::_sparse_coo_tensor_unsafe(a._indices().index_select(1, both), values, self.sizes(), self.options(), true);
}

// Takes over what another sparse tensor consists of.
void become(const Tensor& out, const Tensor& result) {
  auto* implementation = static_cast<at::SparseTensorImpl*>(out.unsafeGetTensorImpl());
  implementation->raw_resize_(result.sparse_dim(), result.dense_dim(), result.sizes());
  implementation->set_indices_and_values_unsafe(result._indices(), result._values());
  implementation->set_coalesced(result.is_coalesced());
}

Tensor& mul_out(const Tensor& self, const Tensor& other, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(out));
  if (self.layout() == at::kStrided && other.layout() == at::kSparse) return mul_out(other, self, out);
  const bool number = other.layout() == at::kStrided && other.dim() == 0;
  const bool alike = other.layout() == at::kSparse && self.sizes() == other.sizes() &&
                     self.sparse_dim() == other.sparse_dim() && self.sparse_dim() > 0 &&
                     self.scalar_type() == other.scalar_type() && self.device() == other.device() && self._nnz() > 0 &&
                     other._nnz() > 0;
  const bool same_type = out.layout() == at::kSparse && out.scalar_type() == self.scalar_type();
  const bool fits = number && at::canCast(at::result_type(self, other), self.scalar_type()) &&
                    at::result_type(self, other) == self.scalar_type();
  if (self.layout() != at::kSparse || !same_type || (!fits && !alike))
    return sparse_fallback<at::_ops::mul_out>(self, other, out);
  become(out, product_of_values(self, other));
  return out;
}

// ---- sums

// r += alpha * sparse, for dense r.
void add_to_dense(const Tensor& r, const Tensor& sparse, const Scalar& alpha) {
  const int64_t nnz = sparse._nnz();
  if (nnz == 0 || r.numel() == 0) return;
  const Tensor values = sparse._values().to(r.scalar_type()).mul(alpha);
  if (sparse.sparse_dim() == 0) return (void)r.add_(values.sum(0));
  const Tensor flat = flat_positions(sparse._indices(), sparse.sizes());
  at::DimVector sizes{c10::multiply_integers(r.sizes().slice(0, static_cast<size_t>(sparse.sparse_dim())))};
  sizes.append(values.sizes().begin() + 1, values.sizes().end());
  const Tensor dense = r.contiguous();
  dense.view(sizes).index_add_(0, flat, values);
  if (!dense.is_same(r)) r.copy_(dense);
}

Tensor& add_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(out));
  const bool dense = !self.is_sparse() && other.layout() == at::kSparse;
  const bool sparse = self.layout() == at::kSparse && other.layout() == at::kSparse && out.layout() == at::kSparse;
  if ((!dense && !sparse) || self.sizes() != other.sizes() || self.device() != other.device() ||
      (sparse && (self.sparse_dim() != other.sparse_dim() || out.scalar_type() != self.scalar_type() ||
                  other.scalar_type() != self.scalar_type())))
    return sparse_fallback<at::_ops::add_out>(self, other, alpha, out);
  if (dense) {
    if (!out.is_same(self)) {
      at::native::resize_output(out, self.sizes());
      out.copy_(self);
    }
    add_to_dense(out, other, alpha);
    return out;
  }
  const Tensor sum = at::_sparse_coo_tensor_unsafe(at::cat({self._indices(), other._indices()}, 1),
                                                   at::cat({self._values(), other._values().mul(alpha)}, 0),
                                                   self.sizes(), self.options(), false)
                         .coalesce();
  become(out, sum);
  return out;
}

// ---- products

struct Compressed {
  Tensor rows, columns, values;
};

// The matrix in compressed rows, or nothing where it has dense dimensions or batches.
std::optional<Compressed> compressed_rows(const Tensor& matrix) {
  if (matrix.dim() != 2 || matrix.dense_dim() != 0) return {};
  if (matrix.layout() == at::kSparse) {
    const Tensor sorted = matrix.coalesce();
    const Tensor rows = at::_convert_indices_from_coo_to_csr(sorted._indices().select(0, 0), matrix.size(0));
    return Compressed{rows, sorted._indices().select(0, 1).contiguous(), sorted._values().contiguous()};
  }
  if (matrix.layout() == at::kSparseCsr)
    return Compressed{matrix.crow_indices().contiguous(), matrix.col_indices().contiguous(),
                      matrix.values().contiguous()};
  if (matrix.layout() == at::kSparseCsc) return compressed_rows(matrix.to_sparse());
  return {};
}

bool multiplies(const Tensor& sparse, const Tensor& dense, const Tensor& out) {
  return dense.layout() == at::kStrided && out.layout() == at::kStrided && dense.dim() == 2 &&
         at::isFloatingType(dense.scalar_type()) && !at::isFloat8Type(dense.scalar_type()) &&
         sparse.scalar_type() == dense.scalar_type() && out.scalar_type() == dense.scalar_type() &&
         sparse.device() == dense.device() && out.device() == dense.device();
}

// out = beta * self + alpha * sparse @ dense. False, having done nothing, for what the kernel does not do.
bool multiply(const Tensor& self, const Tensor& sparse, const Tensor& dense, const Scalar& beta, const Scalar& alpha,
              const Tensor& out) {
  if (!multiplies(sparse, dense, out) || beta.isComplex() || alpha.isComplex()) return false;
  const auto a = compressed_rows(sparse);
  if (!a) return false;
  TORCH_CHECK(sparse.size(1) == dense.size(0), "mat1 and mat2 shapes cannot be multiplied (", sparse.size(0), "x",
              sparse.size(1), " and ", dense.size(0), "x", dense.size(1), ")");
  const std::array<int64_t, 2> sizes{sparse.size(0), dense.size(1)};
  const double kept = beta.toDouble();
  Tensor result = at::empty(sizes, dense.options());
  if (kept != 0) result.copy_(*at::expand_size(self, sizes, "addmm"));
  const Tensor x = dense.contiguous();
  ops::spmm(queue_for(result), view(a->rows), view(a->columns), view(a->values), view(x), view(result),
            alpha.toDouble(), kept);
  if (out.sizes() != at::IntArrayRef(sizes)) at::native::resize_output(out, sizes);
  out.copy_(result);
  return true;
}

Tensor& addmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha,
                  Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(out));
  if (self.layout() == at::kStrided && mat1.layout() != at::kStrided && multiply(self, mat1, mat2, beta, alpha, out))
    return out;
  if (self.layout() == at::kStrided && mat1.layout() == at::kStrided && mat2.dim() == 2 && mat1.dim() == 2 &&
      out.layout() == at::kStrided && self.dim() == 2) {
    Tensor turned = at::empty({mat2.size(1), mat1.size(0)}, mat1.options());
    if (multiply(self.t(), mat2.t(), mat1.t(), beta, alpha, turned)) {
      at::native::resize_output(out, {mat1.size(0), mat2.size(1)});
      return out.copy_(turned.t());
    }
  }
  return sparse_fallback<at::_ops::addmm_out>(self, mat1, mat2, beta, alpha, out);
}

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  if (mat1.layout() == at::kStrided || mat2.layout() != at::kStrided || self.layout() != at::kStrided)
    return sparse_fallback<at::_ops::addmm>(self, mat1, mat2, beta, alpha);
  Tensor out = at::empty({0}, mat2.options());
  return addmm_out(self, mat1, mat2, beta, alpha, out);
}

Tensor& addmm_(Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  return addmm_out(self, mat1, mat2, beta, alpha, self);
}

Tensor& addmv_out(const Tensor& self, const Tensor& matrix, const Tensor& vector, const Scalar& beta,
                  const Scalar& alpha, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(out));
  if (self.dim() <= 1 && vector.dim() == 1 && matrix.dim() == 2) {
    TORCH_CHECK(matrix.size(1) == vector.size(0), "size mismatch, got input (", matrix.size(0), "), mat (",
                matrix.size(0), "x", matrix.size(1), "), vec (", vector.size(0), ")");
    const Tensor addend = self.dim() == 1 ? self.unsqueeze(1) : self.view({1, 1});
    Tensor column = at::empty({matrix.size(0), 1}, vector.options());
    if (multiply(addend, matrix, vector.unsqueeze(1), beta, alpha, column)) {
      at::native::resize_output(out, {matrix.size(0)});
      return out.copy_(column.select(1, 0));
    }
  }
  return sparse_fallback<at::_ops::addmv_out>(self, matrix, vector, beta, alpha, out);
}

// alpha * (mat1 @ mat2) where self has elements, + beta * self.
Tensor sampled_addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                     const Scalar& alpha) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  if (self.layout() != at::kSparseCsr || self.dim() != 2 || mat1.dim() != 2 || mat2.dim() != 2 ||
      mat1.layout() != at::kStrided || mat2.layout() != at::kStrided || mat1.size(1) != mat2.size(0) ||
      self.size(0) != mat1.size(0) || self.size(1) != mat2.size(1) || self.scalar_type() != mat1.scalar_type() ||
      mat1.scalar_type() != mat2.scalar_type() || self.scalar_type() == at::kHalf ||
      self.scalar_type() == at::kBFloat16)
    return sparse_fallback<at::_ops::sparse_sampled_addmm>(self, mat1, mat2, beta, alpha);
  const Tensor rows = at::_convert_indices_from_csr_to_coo(self.crow_indices(), self.col_indices()).select(0, 0);
  const Tensor sums = mat1.index_select(0, rows).mul_(mat2.t().index_select(0, self.col_indices())).sum(1).mul_(alpha);
  Tensor result = self.clone();
  result.values().copy_(beta.equal(0) ? sums : sums.add_(self.values().mul(beta)));
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_convert_indices_from_coo_to_csr.out", rows_to_compressed);
  m.impl("_convert_indices_from_csr_to_coo.out", compressed_to_rows);
  m.impl("_validate_compressed_sparse_indices", validate_compressed);
  for (const char* name :
       {"_to_sparse", "_to_sparse.sparse_dim", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_dense_parts>());
}
TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("_coalesce", coalesce);
  m.impl("sparse_mask", sparse_mask);
  m.impl("mul.out", mul_out);
  m.impl("add.out", add_out);
  m.impl("addmm", addmm);
  m.impl("addmm_", addmm_);
  m.impl("addmm.out", addmm_out);
}
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("addmm.out", addmm_out);
  m.impl("addmv.out", addmv_out);
  m.impl("_to_sparse_csr", to_csr);
  m.impl("_to_sparse_csc", to_csc);
  m.impl("sparse_sampled_addmm", sampled_addmm);
}

}  // namespace ocl::aten
