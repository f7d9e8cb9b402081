// Floating numbers to the integers of quantized tensors and back: what ATen's stubs call. The arithmetic is the CPU's:
// in float32, x / scale + zero point as a product with the reciprocal, rounded once for 8 bits and one scale and after
// both operations otherwise; then to the nearest even number, and saturated.
#include "torch/aten/elementwise_macros.h"
#include "torch/aten/elementwise_unstructured.h"
#include "torch/aten/fallback.h"
#include "torch/aten/quantized_tensors.h"

#include <ATen/TensorOperators.h>
#include <ATen/native/quantized/AffineQuantizer.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/round.h>

namespace ocl::aten {

namespace {

using at::Tensor;

struct Limits {
  int64_t low, high;
};

// Of the numbers that a code can be.
Limits limits_of(at::ScalarType type) {
  if (type == at::kQInt8) return {-128, 127};
  if (type == at::kQUInt8) return {0, 255};
  return {INT32_MIN, INT32_MAX};
}

// Along the axis of a tensor of so many dimensions.
Tensor along(const Tensor& parameters, int64_t axis, int64_t dims) {
  at::DimVector shape(static_cast<size_t>(dims), 1);
  shape[static_cast<size_t>(axis)] = parameters.numel();
  return parameters.reshape(shape);
}

// Rounded numbers, zero point included, into the codes. What NaN becomes is the CPU's choice: the largest code where a
// tensor has one scale, 0 where channels have their own, of 32 bits the smallest.
void store(const Tensor& rounded, const Tensor& quantized, bool channels) {
  const Limits limits = limits_of(quantized.scalar_type());
  if (quantized.scalar_type() == at::kQInt32) {  // whose limits float32 does not have
    const Tensor whole = rounded.nan_to_num(-9e18, 9e18, -9e18).clamp_(-9e18, 9e18).to(at::kLong);
    codes_of(quantized).copy_(whole.clamp_(limits.low, limits.high));
  } else {
    const double nan = channels ? 0 : static_cast<double>(limits.high);
    codes_of(quantized).copy_(rounded.clamp(limits.low, limits.high).nan_to_num_(nan));
  }
}

template <class ZeroPoint>
Tensor without_zero_point(const Tensor& quantized, const ZeroPoint& zero_point) {
  const bool wide = quantized.scalar_type() == at::kQInt32;
  return codes_of(quantized).to(wide ? at::kLong : at::kFloat).sub(zero_point).to(at::kFloat);
}

float reciprocal(double scale) { return 1.0f / static_cast<float>(scale); }

// Types that share bytes are packed by the CPU's code, and counted.
template <class Quantize>
bool packed_on_cpu(const char* name, const Tensor& quantized, const Quantize& quantize) {
  if (!shares_bytes(quantized.scalar_type())) return false;
  count_fallback(name, "has no OpenCL kernel for types of less than a byte");
  quantized.copy_(quantize());
  return true;
}

void quantize_tensor(const Tensor& x, Tensor& quantized, double scale, int64_t zero_point) {
  const auto on_cpu = [&] { return at::quantize_per_tensor(x.cpu(), scale, zero_point, quantized.scalar_type()); };
  if (packed_on_cpu("aten::quantize_per_tensor", quantized, on_cpu)) return;
  const double inverse = reciprocal(scale), zero = static_cast<double>(zero_point);
  const bool wide = quantized.scalar_type() == at::kQInt32;
  store(wide ? at::round(x * inverse + zero) : unary(OCL_ROW("quantize"), x, {}, {inverse, zero}), quantized, false);
}

void dequantize_tensor(const Tensor& quantized, Tensor& x, double scale, int64_t zero_point) {
  if (shares_bytes(quantized.scalar_type())) {
    count_fallback("aten::dequantize.self", "has no OpenCL kernel for types of less than a byte");
    x.copy_(quantized.cpu().dequantize());
    return;
  }
  x.copy_(without_zero_point(quantized, at::Scalar(zero_point)).mul_(static_cast<float>(scale)));
}

// Also of zero points that are no whole numbers.
void quantize_channels(const Tensor& x, Tensor& quantized, const Tensor& scales, const Tensor& zero_points,
                       int64_t axis) {
  const auto on_cpu = [&] {
    return at::quantize_per_channel(x.cpu(), scales.cpu(), zero_points.cpu(), axis, quantized.scalar_type());
  };
  if (packed_on_cpu("aten::quantize_per_channel", quantized, on_cpu)) return;
  const Tensor inverse = along(scales.to(at::kFloat).reciprocal(), axis, x.dim());
  store(at::round(x * inverse + along(zero_points.to(at::kFloat), axis, x.dim())), quantized, true);
}

void dequantize_channels(const Tensor& quantized, Tensor& x, const Tensor& scales, const Tensor& zero_points,
                         int64_t axis) {
  if (shares_bytes(quantized.scalar_type())) return dequantize_tensor(quantized, x, 1, 0);
  const bool wide = quantized.scalar_type() == at::kQInt32;
  const Tensor zero = along(zero_points.to(wide ? at::kLong : at::kFloat), axis, x.dim());
  x.copy_(without_zero_point(quantized, zero).mul_(along(scales.to(at::kFloat), axis, x.dim())));
}

void dequantize_float_channels(const Tensor& quantized, Tensor& x, const Tensor& scales, const Tensor& zero_points,
                               int64_t axis) {
  if (shares_bytes(quantized.scalar_type())) return dequantize_tensor(quantized, x, 1, 0);
  const Tensor zero = along(zero_points.to(at::kFloat), axis, x.dim());
  x.copy_((codes_of(quantized).to(at::kFloat) - zero).mul_(along(scales.to(at::kFloat), axis, x.dim())));
}

}  // namespace

}  // namespace ocl::aten

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_tensor_affine_stub, &ocl::aten::quantize_tensor)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_tensor_affine_stub, &ocl::aten::dequantize_tensor)
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_channel_affine_stub, &ocl::aten::quantize_channels)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_channel_affine_stub, &ocl::aten::dequantize_channels)
REGISTER_PRIVATEUSE1_DISPATCH(quantize_tensor_per_channel_float_qparams_stub, &ocl::aten::quantize_channels)
REGISTER_PRIVATEUSE1_DISPATCH(dequantize_tensor_per_channel_float_qparams_stub, &ocl::aten::dequantize_float_channels)

}  // namespace at::native
