// Special functions: torch.special, igamma, frexp.
#include "torch/aten/elementwise_macros.h"

#include <ATen/ops/i0_meta.h>
#include <ATen/ops/igamma_meta.h>
#include <ATen/ops/igammac_meta.h>
#include <ATen/ops/special_airy_ai_meta.h>
#include <ATen/ops/special_bessel_j0_meta.h>
#include <ATen/ops/special_bessel_j1_meta.h>
#include <ATen/ops/special_bessel_y0_meta.h>
#include <ATen/ops/special_bessel_y1_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_t_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_u_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_v_meta.h>
#include <ATen/ops/special_chebyshev_polynomial_w_meta.h>
#include <ATen/ops/special_erfcx_meta.h>
#include <ATen/ops/special_hermite_polynomial_h_meta.h>
#include <ATen/ops/special_hermite_polynomial_he_meta.h>
#include <ATen/ops/special_i0e_meta.h>
#include <ATen/ops/special_i1_meta.h>
#include <ATen/ops/special_i1e_meta.h>
#include <ATen/ops/special_laguerre_polynomial_l_meta.h>
#include <ATen/ops/special_legendre_polynomial_p_meta.h>
#include <ATen/ops/special_log_ndtr_meta.h>
#include <ATen/ops/special_modified_bessel_i0_meta.h>
#include <ATen/ops/special_modified_bessel_i1_meta.h>
#include <ATen/ops/special_modified_bessel_k0_meta.h>
#include <ATen/ops/special_modified_bessel_k1_meta.h>
#include <ATen/ops/special_ndtri_meta.h>
#include <ATen/ops/special_scaled_modified_bessel_k0_meta.h>
#include <ATen/ops/special_scaled_modified_bessel_k1_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_t_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_u_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_v_meta.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_w_meta.h>
#include <ATen/ops/special_spherical_bessel_j0_meta.h>
#include <ATen/ops/special_zeta_meta.h>

namespace ocl::aten {

namespace {

OCL_UNARY(i0, "i0")
OCL_UNARY(special_i0e, "i0e")
OCL_UNARY(special_i1, "i1")
OCL_UNARY(special_i1e, "i1e")
OCL_BINARY(igamma, igamma, "igamma")
OCL_BINARY(igammac, igammac, "igammac")

// For these PyTorch has no half types, on any device.
void require_wide(const char* name, at::ScalarType type) {
  if (type == at::kHalf || type == at::kBFloat16) not_implemented_for(name, type);
}
#define OCL_WIDE_UNARY(op, row)                                   \
  struct op##_unary final : Out<at::meta::structured_##op, 1> {   \
    using Out::Out;                                               \
  };                                                              \
  at::Tensor& op##_out(const at::Tensor& self, at::Tensor& out) { \
    op##_unary kernel(out);                                       \
    kernel.meta(self);                                            \
    require_wide(row, kernel.common_dtype());                     \
    run(OCL_ROW(row), kernel);                                    \
    return out;                                                   \
  }
#define OCL_WIDE_BINARY(op, row)                                                           \
  struct op##_binary final : Out<at::meta::structured_##op, 1> {                           \
    using Out::Out;                                                                        \
  };                                                                                       \
  at::Tensor& op##_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) { \
    op##_binary kernel(out);                                                               \
    kernel.meta(self, other);                                                              \
    require_wide(row, kernel.common_dtype());                                              \
    run(OCL_ROW(row), kernel);                                                             \
    return out;                                                                            \
  }
OCL_WIDE_UNARY(special_bessel_j0, "bessel_j0")
OCL_WIDE_UNARY(special_bessel_j1, "bessel_j1")
OCL_WIDE_UNARY(special_bessel_y0, "bessel_y0")
OCL_WIDE_UNARY(special_bessel_y1, "bessel_y1")
OCL_WIDE_UNARY(special_modified_bessel_i0, "i0")
OCL_WIDE_UNARY(special_modified_bessel_i1, "i1")
OCL_WIDE_UNARY(special_modified_bessel_k0, "modified_bessel_k0")
OCL_WIDE_UNARY(special_modified_bessel_k1, "modified_bessel_k1")
OCL_WIDE_UNARY(special_scaled_modified_bessel_k0, "scaled_modified_bessel_k0")
OCL_WIDE_UNARY(special_scaled_modified_bessel_k1, "scaled_modified_bessel_k1")
OCL_WIDE_UNARY(special_spherical_bessel_j0, "spherical_bessel_j0")
OCL_WIDE_UNARY(special_airy_ai, "airy_ai")
OCL_WIDE_UNARY(special_erfcx, "erfcx")
OCL_WIDE_UNARY(special_log_ndtr, "log_ndtr")
OCL_WIDE_UNARY(special_ndtri, "ndtri")
OCL_WIDE_BINARY(special_chebyshev_polynomial_t, "chebyshev_polynomial_t")
OCL_WIDE_BINARY(special_chebyshev_polynomial_u, "chebyshev_polynomial_u")
OCL_WIDE_BINARY(special_chebyshev_polynomial_v, "chebyshev_polynomial_v")
OCL_WIDE_BINARY(special_chebyshev_polynomial_w, "chebyshev_polynomial_w")
OCL_WIDE_BINARY(special_shifted_chebyshev_polynomial_t, "shifted_chebyshev_polynomial_t")
OCL_WIDE_BINARY(special_shifted_chebyshev_polynomial_u, "shifted_chebyshev_polynomial_u")
OCL_WIDE_BINARY(special_shifted_chebyshev_polynomial_v, "shifted_chebyshev_polynomial_v")
OCL_WIDE_BINARY(special_shifted_chebyshev_polynomial_w, "shifted_chebyshev_polynomial_w")
OCL_WIDE_BINARY(special_hermite_polynomial_h, "hermite_polynomial_h")
OCL_WIDE_BINARY(special_hermite_polynomial_he, "hermite_polynomial_he")
OCL_WIDE_BINARY(special_laguerre_polynomial_l, "laguerre_polynomial_l")
OCL_WIDE_BINARY(special_legendre_polynomial_p, "legendre_polynomial_p")
OCL_WIDE_BINARY(special_zeta, "zeta")

std::tuple<at::Tensor&, at::Tensor&> frexp_out(const at::Tensor& self, at::Tensor& mantissa, at::Tensor& exponent) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), "torch.frexp() only supports floating-point dtypes");
  TORCH_CHECK(mantissa.dtype() == self.dtype(), "torch.frexp() expects mantissa to have dtype ", self.dtype(),
              " but got ", mantissa.dtype());
  TORCH_CHECK(exponent.dtype() == at::kInt, "torch.frexp() expects exponent to have int dtype but got ",
              exponent.dtype());
  const auto into = [&](const ops::ElementwiseRow& row, at::Tensor& out) {
    auto iterator = at::TensorIteratorConfig()
                        .add_output(out)
                        .add_const_input(self)
                        .check_all_same_dtype(false)
                        .set_check_mem_overlap(true)
                        .build();
    run(row, iterator, {}, self.scalar_type());
  };
  into(OCL_ROW("frexp_exponent"), exponent);
  into(OCL_ROW("frexp_mantissa"), mantissa);
  return {mantissa, exponent};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_IMPL(m, i0, "i0", "", ".out");
  OCL_IMPL(m, igamma, "igamma", "", ".out");
  OCL_IMPL(m, igammac, "igammac", "", ".out");
  m.impl("frexp.Tensor_out", frexp_out);
  OCL_IMPL_NEW(m, special_i0e, "special_i0e", "", ".out");
  OCL_IMPL_NEW(m, special_i1, "special_i1", "", ".out");
  OCL_IMPL_NEW(m, special_i1e, "special_i1e", "", ".out");
  m.impl("special_bessel_j0.out", special_bessel_j0_out);
  m.impl("special_bessel_j1.out", special_bessel_j1_out);
  m.impl("special_bessel_y0.out", special_bessel_y0_out);
  m.impl("special_bessel_y1.out", special_bessel_y1_out);
  m.impl("special_modified_bessel_i0.out", special_modified_bessel_i0_out);
  m.impl("special_modified_bessel_i1.out", special_modified_bessel_i1_out);
  m.impl("special_modified_bessel_k0.out", special_modified_bessel_k0_out);
  m.impl("special_modified_bessel_k1.out", special_modified_bessel_k1_out);
  m.impl("special_scaled_modified_bessel_k0.out", special_scaled_modified_bessel_k0_out);
  m.impl("special_scaled_modified_bessel_k1.out", special_scaled_modified_bessel_k1_out);
  m.impl("special_spherical_bessel_j0.out", special_spherical_bessel_j0_out);
  m.impl("special_airy_ai.out", special_airy_ai_out);
  m.impl("special_erfcx.out", special_erfcx_out);
  m.impl("special_log_ndtr.out", special_log_ndtr_out);
  m.impl("special_ndtri.out", special_ndtri_out);
  m.impl("special_chebyshev_polynomial_t.out", special_chebyshev_polynomial_t_out);
  m.impl("special_chebyshev_polynomial_u.out", special_chebyshev_polynomial_u_out);
  m.impl("special_chebyshev_polynomial_v.out", special_chebyshev_polynomial_v_out);
  m.impl("special_chebyshev_polynomial_w.out", special_chebyshev_polynomial_w_out);
  m.impl("special_shifted_chebyshev_polynomial_t.out", special_shifted_chebyshev_polynomial_t_out);
  m.impl("special_shifted_chebyshev_polynomial_u.out", special_shifted_chebyshev_polynomial_u_out);
  m.impl("special_shifted_chebyshev_polynomial_v.out", special_shifted_chebyshev_polynomial_v_out);
  m.impl("special_shifted_chebyshev_polynomial_w.out", special_shifted_chebyshev_polynomial_w_out);
  m.impl("special_hermite_polynomial_h.out", special_hermite_polynomial_h_out);
  m.impl("special_hermite_polynomial_he.out", special_hermite_polynomial_he_out);
  m.impl("special_laguerre_polynomial_l.out", special_laguerre_polynomial_l_out);
  m.impl("special_legendre_polynomial_p.out", special_legendre_polynomial_p_out);
  m.impl("special_zeta.out", special_zeta_out);
}

}  // namespace ocl::aten
