// Matrix products: mm, addmm, bmm, baddbmm, addbmm, addmv, dot. Everything else (linear, matmul, mv, outer, einsum) is
// composed of them by ATen. Operands are passed with their strides, never copied; the added tensor is an operand of the
// kernel.
#include "torch/aten/common.h"
#include "ops/core/precision.h"
#include "ops/gemm/gemm.h"

#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_addmm_activation_meta.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/addr_native.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mm_meta.h>

namespace ocl::aten {
namespace {

// Strides of (batch, row, column) of a tensor of two or three dimensions.
ops::MatrixStrides strides_of(const at::Tensor& t) {
  if (t.dim() == 2) return {0, t.stride(0), t.stride(1)};
  return {t.stride(0), t.stride(1), t.stride(2)};
}

// ATen hands conjugated and negated views to these operators as they are.
at::Tensor resolved(const at::Tensor& t) { return t.resolve_conj().resolve_neg(); }

struct Epilogue {
  const at::Tensor* addend = nullptr;  // broadcast to the output
  at::Scalar beta = 0, alpha = 1;
  ops::Activation activation = ops::Activation::none;
};

// out = activation(alpha * a @ b + beta * addend) for matrices or batches of matrices.
void multiply(const char* name, const at::Tensor& out, const at::Tensor& mat1, const at::Tensor& mat2,
              const Epilogue& epilogue = {}) {
  TORCH_CHECK(mat1.scalar_type() == mat2.scalar_type(),
              "expected m1 and m2 to have the same dtype, but got: ", mat1.dtype(), " != ", mat2.dtype());
  TORCH_CHECK(mat1.scalar_type() == out.scalar_type(), "expected the output of ", name, " to have dtype ", mat1.dtype(),
              ", but got ", out.dtype());
  if (out.numel() == 0) return;
  if (out.scalar_type() == at::kBool) {
    if (mat1.numel() == 0 && !epilogue.addend) return (void)out.zero_();
    not_implemented_for(name, at::kBool);
  }
  if (out.scalar_type() == at::kComplexHalf) not_implemented_for(name, at::kComplexHalf);
  if (out.is_conj() || out.is_neg()) {
    at::Tensor plain = out.resolve_conj().resolve_neg();
    multiply(name, plain, mat1, mat2, epilogue);
    out.copy_(plain);
    return;
  }
  const at::Tensor a = resolved(mat1), b = resolved(mat2);
  ops::GemmProblem p;
  p.dtype = dtype_of(out.scalar_type());
  p.batch = out.dim() == 3 ? out.size(0) : 1;
  p.m = out.size(-2), p.n = out.size(-1), p.k = a.size(-1);
  p.a = strides_of(a), p.b = strides_of(b), p.c = strides_of(out);
  const auto alpha = epilogue.alpha.toComplexDouble(), beta = epilogue.beta.toComplexDouble();
  p.alpha = {alpha.real(), alpha.imag()}, p.beta = {beta.real(), beta.imag()};
  p.activation = epilogue.activation;
  at::Tensor d;
  if (epilogue.addend && p.beta != 0.0) {
    TORCH_CHECK(epilogue.addend->scalar_type() == out.scalar_type(), "self and mat2 must have the same dtype, but got ",
                epilogue.addend->dtype(), " and ", out.dtype());
    d = resolved(*epilogue.addend).expand(out.sizes());
    // Another view of the output would be overwritten before it is read.
    if (d.is_alias_of(out) && !(d.data_ptr() == out.data_ptr() && d.strides() == out.strides())) d = d.clone();
    p.d = strides_of(d);
  }
  ops::gemm(queue_for(out), p, {address(a), address(b), address(out), address(d)});
}

struct Mm : Out<at::meta::structured_mm, 1> {
  using Out::Out;
};
struct Addmm : Out<at::meta::structured_addmm, 1> {
  using Out::Out;
};
struct AddmmActivation : Out<at::meta::structured__addmm_activation, 1> {
  using Out::Out;
};
struct Bmm : Out<at::meta::structured_bmm, 1> {
  using Out::Out;
};
struct Baddbmm : Out<at::meta::structured_baddbmm, 1> {
  using Out::Out;
};
struct Addmv : Out<at::meta::structured_addmv, 1> {
  using Out::Out;
};

at::Tensor& mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  Mm op(out);
  op.meta(self, mat2);
  multiply("mm", op.output(0), self, mat2);
  op.finish();
  return out;
}

at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  Addmm op(out);
  op.meta(self, mat1, mat2, beta, alpha);
  multiply("addmm", op.output(0), mat1, mat2, {&self, beta, alpha});
  op.finish();
  return out;
}

at::Tensor& addmm_activation_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                 const at::Scalar& beta, const at::Scalar& alpha, bool use_gelu, at::Tensor& out) {
  AddmmActivation op(out);
  op.meta(self, mat1, mat2, beta, alpha, use_gelu);
  if (!at::isFloatingType(out.scalar_type())) not_implemented_for("_addmm_activation", out.scalar_type());
  multiply("_addmm_activation", op.output(0), mat1, mat2,
           {&self, beta, alpha, use_gelu ? ops::Activation::gelu : ops::Activation::relu});
  op.finish();
  return out;
}

at::Tensor& bmm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  Bmm op(out);
  op.meta(self, mat2);
  multiply("bmm", op.output(0), self, mat2);
  op.finish();
  return out;
}

at::Tensor& baddbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                        const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  Baddbmm op(out);
  op.meta(self, batch1, batch2, beta, alpha);
  multiply("baddbmm", op.output(0), batch1, batch2, {&self, beta, alpha});
  op.finish();
  return out;
}

at::Tensor& addmv_out(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  Addmv op(out);
  op.meta(self, mat, vec, beta, alpha);
  const at::Tensor addend = self.dim() == 1 ? self.unsqueeze(1) : self;
  multiply("addmv", op.output(0).unsqueeze(1), mat, vec.unsqueeze(1), {&addend, beta, alpha});
  op.finish();
  return out;
}

// out = beta * self + alpha * sum of batch1[i] @ batch2[i]: one product after the other, each added to the output.
void add_products(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                  const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(batch1.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(batch2.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_CHECK(batch1.size(0) == batch2.size(0), "batch1 and batch2 must have same number of batches, got ",
              batch1.size(0), " and ", batch2.size(0));
  TORCH_CHECK(batch1.size(2) == batch2.size(1), "Incompatible matrix sizes for bmm (", batch1.size(1), "x",
              batch1.size(2), " and ", batch2.size(1), "x", batch2.size(2), ")");
  const std::array<int64_t, 2> sizes{batch1.size(1), batch2.size(2)};
  const auto added = at::expand_size(self, sizes, "addbmm");
  at::native::resize_output(out, sizes);
  at::assert_no_internal_overlap(out);
  const int64_t count = batch1.size(0);
  if (count == 0 || batch1.size(2) == 0) {
    multiply("addbmm", out, at::empty({sizes[0], 0}, batch1.options()), at::empty({0, sizes[1]}, batch2.options()),
             {&*added, beta, alpha});
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    multiply("addbmm", out, batch1.select(0, i), batch2.select(0, i),
             i == 0 ? Epilogue{&*added, beta, alpha} : Epilogue{&out, 1, alpha});
}

at::Tensor& addbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                       const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  add_products(self, batch1, batch2, beta, alpha, out);
  return out;
}

at::Tensor addbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                  const at::Scalar& alpha) {
  at::Tensor out = empty_like_options({0}, self.options());
  add_products(self, batch1, batch2, beta, alpha, out);
  return out;
}

at::Tensor& addbmm_(at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                    const at::Scalar& alpha) {
  const bool alike = batch1.dim() == 3 && batch2.dim() == 3 && self.dim() == 2 && self.size(0) == batch1.size(1) &&
                     self.size(1) == batch2.size(2);
  // A self that is broadcast grows here, and is refused by the other in-place forms, as on the CPU and with CUDA.
  add_products(alike ? self : self.clone(), batch1, batch2, beta, alpha, self);
  return self;
}

at::Tensor& addr_(at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                  const at::Scalar& alpha) {
  TORCH_CHECK(vec1.dim() == 1 && vec2.dim() == 1, "addr: Expected 1-D argument vec1 and vec2, but got ", vec1.dim(),
              "-D and ", vec2.dim(), "-D");
  TORCH_CHECK(self.dim() == 2 && self.size(0) == vec1.size(0) && self.size(1) == vec2.size(0),
              "size mismatch, input: ", self.sizes(), ", v1: ", vec1.sizes(), ", v2: ", vec2.sizes());
  return at::native::math_addr_out(self, vec1, vec2, beta, alpha, self);
}

at::Tensor inner_product(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", other.dim(),
              "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [",
              other.numel(), "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(),
              " elements respectively");
  at::Tensor out = empty_like_options({}, self.options());
  multiply("dot", out.view({1, 1}), self.unsqueeze(0), other.unsqueeze(1));
  return out;
}

at::Tensor conjugated_product(const at::Tensor& self, const at::Tensor& other) {
  return inner_product(self.is_complex() ? self.conj() : self, other);
}

// Products of half types with a float32 result: the operands are widened, since every algorithm accumulates in its
// output's precision.
at::Tensor widened(const char* name, const at::Tensor& t, at::ScalarType result) {
  TORCH_CHECK(result == t.scalar_type() ||
                  (result == at::kFloat && (t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16)),
              name, ": out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs");
  return t.to(result);
}
at::Tensor mm_dtype(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType result) {
  return at::mm(widened("mm", self, result), widened("mm", mat2, result));
}
at::Tensor& mm_dtype_out(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType result, at::Tensor& out) {
  return mm_out(widened("mm", self, result), widened("mm", mat2, result), out);
}
at::Tensor bmm_dtype(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType result) {
  return at::bmm(widened("bmm", self, result), widened("bmm", mat2, result));
}
at::Tensor& bmm_dtype_out(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType result, at::Tensor& out) {
  return bmm_out(widened("bmm", self, result), widened("bmm", mat2, result), out);
}
at::Tensor addmm_dtype(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, at::ScalarType result,
                       const at::Scalar& beta, const at::Scalar& alpha) {
  return at::addmm(widened("addmm", self, result), widened("addmm", mat1, result), widened("addmm", mat2, result), beta,
                   alpha);
}
at::Tensor& addmm_dtype_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                            at::ScalarType result, const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  return addmm_out(widened("addmm", self, result), widened("addmm", mat1, result), widened("addmm", mat2, result), beta,
                   alpha, out);
}
at::Tensor baddbmm_dtype(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                         at::ScalarType result, const at::Scalar& beta, const at::Scalar& alpha) {
  return at::baddbmm(widened("baddbmm", self, result), widened("baddbmm", batch1, result),
                     widened("baddbmm", batch2, result), beta, alpha);
}
at::Tensor& baddbmm_dtype_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                              at::ScalarType result, const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  return baddbmm_out(widened("baddbmm", self, result), widened("baddbmm", batch1, result),
                     widened("baddbmm", batch2, result), beta, alpha, out);
}

// The same settings that allow it on CUDA.
bool allows_tf32(ops::Tf32 where) {
  return where == ops::Tf32::gemm && at::globalContext().float32Precision(
                                         at::Float32Backend::CUDA, at::Float32Op::MATMUL) == at::Float32Precision::TF32;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  ops::set_tf32_policy(allows_tf32);
  m.impl("mm.dtype", mm_dtype);
  m.impl("mm.dtype_out", mm_dtype_out);
  m.impl("bmm.dtype", bmm_dtype);
  m.impl("bmm.dtype_out", bmm_dtype_out);
  m.impl("addmm.dtype", addmm_dtype);
  m.impl("addmm.dtype_out", addmm_dtype_out);
  m.impl("baddbmm.dtype", baddbmm_dtype);
  m.impl("baddbmm.dtype_out", baddbmm_dtype_out);
  m.impl("mm.out", mm_out);
  m.impl("addmm.out", addmm_out);
  m.impl("_addmm_activation.out", addmm_activation_out);
  m.impl("bmm.out", bmm_out);
  m.impl("baddbmm.out", baddbmm_out);
  m.impl("addmv.out", addmv_out);
  m.impl("addbmm", addbmm);
  m.impl("addbmm_", addbmm_);
  m.impl("addr_", addr_);
  m.impl("addbmm.out", addbmm_out);
  m.impl("dot", inner_product);
  m.impl("vdot", conjugated_product);
}

}  // namespace
}  // namespace ocl::aten
