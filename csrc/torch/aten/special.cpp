// Special functions that need more than their row of the elementwise table (table_rows.cpp).
#include "torch/aten/elementwise_macros.h"

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

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("frexp.Tensor_out", frexp_out); }

}  // namespace ocl::aten
