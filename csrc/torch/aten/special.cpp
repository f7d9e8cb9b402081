// Special functions that need more than their row of the elementwise table (table_rows.cpp).
#include "torch/aten/elementwise_macros.h"

#include <ATen/native/Math.h>
#include <ATen/native/UnaryOps.h>

namespace ocl::aten {

namespace {

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

// The iterator holds 0 .. length - 1, which become the window.
void kaiser_window_kernel(at::TensorIteratorBase& iterator, int64_t length, double beta) {
  const double size = std::abs(beta), middle = static_cast<double>(length - 1) / 2;
  run(OCL_ROW("kaiser_window"), iterator, {middle, size, calc_i0e(size)}, std::nullopt, "kaiser_window");
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("frexp.Tensor_out", frexp_out); }

}  // namespace ocl::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(kaiser_window_stub, &ocl::aten::kaiser_window_kernel)

}  // namespace at::native
