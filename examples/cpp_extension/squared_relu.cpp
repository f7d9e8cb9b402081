// An operator of one's own in C++ with an OpenCL kernel: examples::squared_relu_cpp(x) = max(x, 0)^2, for float32
// tensors on `ocl`.
#include <ATen/ATen.h>
#include <torch/library.h>
#include <torch_ocl/extension.h>

#include <map>

namespace {

const char* source = R"(
kernel void squared_relu(global const float* x, global float* y, long n) {
  for (long i = get_global_id(0); i < n; i += get_global_size(0)) {
    const float v = fmax(x[i], 0.0f);
    y[i] = v * v;
  }
}
)";

at::Tensor squared_relu(const at::Tensor& input) {
  TORCH_CHECK(input.scalar_type() == at::kFloat, "squared_relu is implemented for float32 tensors, got ",
              input.scalar_type());
  const at::Tensor x = input.contiguous(), y = at::empty_like(x);
  const int device = x.device().index();
  static std::map<int, void*> kernels;  // one per device; guard it when several threads call
  if (!kernels[device]) kernels[device] = torch_ocl_extension()->kernel(device, "squared_relu", source);
  const int64_t n = x.numel();
  ocl::extension::launch(kernels[device], {1, {static_cast<size_t>(n)}}, {}, x.const_data_ptr(), y.mutable_data_ptr(),
                         n);
  return y;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(examples, m) { m.def("squared_relu_cpp(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(examples, PrivateUse1, m) { m.impl("squared_relu_cpp", squared_relu); }
