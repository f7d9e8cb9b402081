// Products with quantised weights: PyTorch's own operators, and ocl::quantized_linear for torch_ocl.quantize_.
// How codes are stored is ours to choose (kernels_cl/quantized/codes.clh): PyTorch's packed tensors are opaque.
#include "ops/quantized/quantized.h"
#include "torch/aten/common.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

namespace ocl::aten {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using ops::WeightFormat;

bool is_small_float(const Tensor& t) {
  return t.scalar_type() == at::kFloat || t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16;
}

Tensor dense_rows(const Tensor& x) { return x.stride(-1) == 1 || x.size(-1) <= 1 ? x : x.contiguous(); }

// y [m, n] = x [m, k] W^T + bias.
Tensor product(const Tensor& x, const ops::QuantizedMatrix& w, const OptionalTensor& bias = {}) {
  const c10::DeviceGuard guard(x.device());
  const Tensor rows = dense_rows(x);
  Tensor y = at::empty({x.size(0), w.n}, x.options());
  const ops::TensorView added = bias && bias->defined() ? view(*bias) : ops::TensorView{};
  if (w.k == 0) return bias && bias->defined() ? y.copy_(bias->expand_as(y)) : y.zero_();
  ops::quantized_product(queue_for(x), view(rows), w, added, view(y));
  return y;
}

// ---- 8 bits

Tensor weight_int8pack_mm(const Tensor& self, const Tensor& mat2, const Tensor& scales) {
  TORCH_CHECK(self.dim() == 2 && mat2.dim() == 2, "_weight_int8pack_mm: expected A and B to be 2D tensors");
  TORCH_CHECK(is_small_float(self), "_weight_int8pack_mm: expected A to be either 32-bit or 16-bit floating numbers, ",
              "but got ", self.dtype());
  TORCH_CHECK(mat2.scalar_type() == at::kChar, "_weight_int8pack_mm: expected B to be int8, but got ", mat2.dtype());
  TORCH_CHECK(mat2.size(1) == self.size(1), "_weight_int8pack_mm: expected B to have ", self.size(1),
              " columns, but got ", mat2.size(1));
  TORCH_CHECK(scales.dim() == 1 && scales.size(0) == mat2.size(0), "_weight_int8pack_mm: expected scales to be 1d ",
              "tensor with size ", mat2.size(0));
  TORCH_CHECK(is_small_float(scales), "_weight_int8pack_mm: expected scales of a floating type, but got ",
              scales.dtype());
  const Tensor codes = dense_rows(mat2);
  ops::QuantizedMatrix w;
  w.format = WeightFormat::int8;
  w.codes = address(codes);
  w.n = codes.size(0), w.k = codes.size(1), w.group = std::max<int64_t>(w.k, 1);
  w.pitch = w.n > 1 ? codes.stride(0) : w.k;
  if (w.n > 1 && w.pitch < w.k) return weight_int8pack_mm(self, mat2.contiguous(), scales);
  w.scales = view(scales.unsqueeze(1));
  return product(self, w);
}

// Sums of at most 1024 products of 8-bit numbers are exact in float32.
Tensor& int_mm_out(const Tensor& self, const Tensor& mat2, Tensor& out) {
  TORCH_CHECK(self.dim() == 2, "Expected self to be of dimension 2 but got ", self.dim());
  TORCH_CHECK(mat2.dim() == 2, "Expected mat2 to be of dimension 2 but got ", mat2.dim());
  TORCH_CHECK(self.size(1) == mat2.size(0), "self.size(1) needs to match mat2.size(0) but got ", self.size(1), " and ",
              mat2.size(0));
  TORCH_CHECK(self.scalar_type() == at::kChar || self.scalar_type() == at::kByte,
              "Expected self dtype to be of type int8 or uint8 but got ", self.dtype());
  TORCH_CHECK(mat2.scalar_type() == at::kChar, "Expected mat2 dtype to be of type int8 but got ", mat2.dtype());
  TORCH_CHECK(out.scalar_type() == at::kInt, "Expected result dtype to be of type kInt but got ", out.dtype());
  at::native::resize_output(out, {self.size(0), mat2.size(1)});
  constexpr int64_t exact = 512;  // uint8 times int8: 2^15 each, 2^24 in all
  const int64_t k = self.size(1);
  if (k == 0) return out.zero_();
  const Tensor a = self.to(at::kFloat), b = mat2.to(at::kFloat);
  for (int64_t begin = 0; begin < k; begin += exact) {
    const int64_t steps = std::min(exact, k - begin);
    const Tensor part = at::mm(a.narrow(1, begin, steps), b.narrow(0, begin, steps));
    if (begin == 0)
      out.copy_(part);
    else
      out.add_(part.to(at::kInt));
  }
  return out;
}

Tensor int_mm(const Tensor& self, const Tensor& mat2) {
  Tensor out = at::empty({0}, self.options().dtype(at::kInt));
  return int_mm_out(self, mat2, out);
}

// ---- 4 bits

// Codes [n, k] of one byte each to halves of bytes [n, k / 2].
Tensor join_halves(const Tensor& codes) {
  const Tensor halves = codes.reshape({codes.size(0), codes.size(1) / 32, 2, 16});
  return halves.select(2, 0).bitwise_or(halves.select(2, 1).bitwise_left_shift(4)).reshape({codes.size(0), -1});
}

// Two codes of a byte [n, k / 2] next to each other: [n, k].
Tensor split_halves(const Tensor& bytes, bool high_first) {
  const Tensor low = bytes.bitwise_and(15), high = bytes.bitwise_right_shift(4);
  return at::stack(high_first ? at::TensorList({high, low}) : at::TensorList({low, high}), -1)
      .reshape({bytes.size(0), bytes.size(1) * 2});
}

void check_tiles(const char* name, int64_t n, int64_t k, int64_t tiles) {
  TORCH_CHECK(tiles == 2 || tiles == 4 || tiles == 8, name, ": innerKTiles need to be 2, 4, or 8, but got ", tiles);
  TORCH_CHECK(n % 8 == 0, name, ": expected N to be divisible by 8, but got ", n);
  TORCH_CHECK(k % (tiles * 16) == 0, name, ": expected K to be divisible by ", tiles * 16, ", but got ", k);
}

// CUDA's: [n, k / 2] bytes, even k in the upper halves, to [n / 8, k / (tiles 16), 32, tiles / 2] words.
Tensor convert_weight_to_int4pack(const Tensor& self, int64_t tiles) {
  TORCH_CHECK(self.dim() == 2, "_convert_weight_to_int4pack: expected weight to be 2D tensor.");
  TORCH_CHECK(self.scalar_type() == at::kByte, "_convert_weight_to_int4pack: expected weight to be kByte.");
  const int64_t n = self.size(0), k = self.size(1) * 2;
  check_tiles("_convert_weight_to_int4pack", n, k, tiles);
  return join_halves(split_halves(self, true)).view(at::kInt).reshape({n / 8, k / (tiles * 16), 32, tiles / 2});
}

// The CPU's: [n, k] integers to [n, k / 2] bytes.
Tensor convert_weight_to_int4pack_for_cpu(const Tensor& self, int64_t tiles) {
  TORCH_CHECK(self.dim() == 2, "_convert_weight_to_int4pack_for_cpu: expected weight to be 2D tensor.");
  TORCH_CHECK(self.scalar_type() == at::kInt, "_convert_weight_to_int4pack_for_cpu: expected weight to be kInt.");
  check_tiles("_convert_weight_to_int4pack_for_cpu", self.size(0) / 2 * 8, self.size(1), tiles);
  return join_halves(self.to(at::kByte).bitwise_and(15));
}

ops::QuantizedMatrix int4_matrix(const Tensor& codes, int64_t n, int64_t k, int64_t group) {
  ops::QuantizedMatrix w;
  w.format = WeightFormat::int4;
  w.codes = address(codes);
  w.n = n, w.k = k, w.pitch = k / 2, w.group = group;
  return w;
}

void check_int4(const char* name, const Tensor& x, const Tensor& codes, int64_t n, int64_t group) {
  TORCH_CHECK(x.dim() == 2, name, ": expected A to be 2D tensor.");
  TORCH_CHECK(is_small_float(x), name, ": expected A to be either 32-bit or 16-bit floating numbers, but got ",
              x.dtype());
  TORCH_CHECK(codes.is_contiguous(), name, ": expected B to be contiguous.");
  const int64_t bytes = codes.numel() * static_cast<int64_t>(codes.element_size());
  TORCH_CHECK(bytes * 2 == n * x.size(1), name, ": expected B to have ", x.size(1), " weights in a row, but it has ",
              n == 0 ? 0 : bytes * 2 / n);
  TORCH_CHECK(group == 32 || group == 64 || group == 128 || group == 256, name,
              ": expected qGroupSize to be 32, 64, 128 or 256, but got ", group);
  TORCH_CHECK(x.size(1) % group == 0, name, ": expected K to be divisible by qGroupSize, but got ", x.size(1), " and ",
              group);
}

Tensor int4_product(const char* name, const Tensor& x, const Tensor& codes, int64_t n, int64_t group,
                    const Tensor& scales_and_zeros) {
  check_int4(name, x, codes, n, group);
  TORCH_CHECK(scales_and_zeros.dim() == 3 && scales_and_zeros.size(0) == x.size(1) / group &&
                  scales_and_zeros.size(1) == n && scales_and_zeros.size(2) == 2 && is_small_float(scales_and_zeros),
              name, ": expected qScaleAndZeros to be 3d floating tensor with sizes [", x.size(1) / group, ", ", n,
              ", 2], but got ", scales_and_zeros.sizes());
  ops::QuantizedMatrix w = int4_matrix(codes, n, x.size(1), group);
  w.scales = view(scales_and_zeros.select(2, 0).t());
  w.offsets = view(scales_and_zeros.select(2, 1).t());
  return product(x, w);
}

Tensor weight_int4pack_mm(const Tensor& self, const Tensor& mat2, int64_t group, const Tensor& scales_and_zeros) {
  TORCH_CHECK(mat2.dim() == 4 && mat2.scalar_type() == at::kInt,
              "_weight_int4pack_mm: expected B to be a 4D tensor of int32, but got ", mat2.sizes(), " of ",
              mat2.dtype());
  return int4_product("_weight_int4pack_mm", self, mat2, mat2.size(0) * 8, group, scales_and_zeros);
}

Tensor weight_int4pack_mm_for_cpu(const Tensor& self, const Tensor& mat2, int64_t group,
                                  const Tensor& scales_and_zeros) {
  TORCH_CHECK(mat2.dim() == 2 && mat2.scalar_type() == at::kByte,
              "_weight_int4pack_mm_for_cpu: expected B to be a 2D tensor of uint8, but got ", mat2.sizes(), " of ",
              mat2.dtype());
  return int4_product("_weight_int4pack_mm_for_cpu", self, mat2, mat2.size(0), group, scales_and_zeros);
}

// ---- 4 bits with activations that are rounded to 8 bits

// Codes, float32 scales and bias one behind the other, as bytes.
Tensor dyn_quant_pack_4bit_weight(const Tensor& weights, const Tensor& scales, const OptionalTensor& bias,
                                  int64_t block, int64_t k, int64_t n) {
  TORCH_CHECK(weights.scalar_type() == at::kByte, "_dyn_quant_pack_4bit_weight: expected weights of uint8, but got ",
              weights.dtype());
  TORCH_CHECK(block > 0 && k % block == 0 && block % 32 == 0,
              "_dyn_quant_pack_4bit_weight: in_features must be divisible by block_size, and block_size by 32, but ",
              "got ", k, " and ", block);
  TORCH_CHECK(weights.numel() == n * k / 2 && scales.numel() == n * (k / block),
              "_dyn_quant_pack_4bit_weight: expected ", n * k / 2, " bytes of weights and ", n * (k / block),
              " scales, but got ", weights.numel(), " and ", scales.numel());
  const Tensor codes = join_halves(split_halves(weights.reshape({n, k / 2}), false)).reshape({-1});
  std::vector<Tensor> parts{codes, scales.reshape({-1}).to(at::kFloat).view(at::kByte)};
  if (bias && bias->defined()) parts.push_back(bias->reshape({-1}).to(at::kFloat).view(at::kByte));
  return at::cat(parts);
}

// Each row of x as 8-bit codes times a scale, in float32: how PyTorch's kernels round activations.
Tensor rounded_rows(const Tensor& x) {
  const Tensor least = x.amin(-1, true).clamp_max(0), most = x.amax(-1, true).clamp_min(0), range = most - least;
  const Tensor scale = at::where(range == 0, at::ones_like(range), 255 / range);
  const Tensor low = least * scale, high = most * scale;
  const Tensor zero = at::where(low + high - 1 > 0, -128 - low, 127 - high).clamp(-128, 127).round();
  const Tensor scaled = x * scale;
  const Tensor codes = (at::sign(scaled) * at::floor(scaled.abs() + 0.5) + zero).clamp(-128, 127);
  return (codes - zero) / scale;
}

Tensor dyn_quant_matmul_4bit(const Tensor& x, const Tensor& packed, int64_t block, int64_t k, int64_t n) {
  TORCH_CHECK(x.dim() == 2 && x.size(1) == k, "_dyn_quant_matmul_4bit: expected input to be [M, ", k, "], but got ",
              x.sizes());
  TORCH_CHECK(x.scalar_type() == at::kFloat || (x.scalar_type() == at::kBFloat16 && block == k),
              "_dyn_quant_matmul_4bit: expected input to be float32, or bfloat16 with block_size == in_features, but "
              "got ",
              x.dtype(), " with block_size ", block, " and in_features ", k);
  TORCH_CHECK(block > 0 && k % block == 0, "_dyn_quant_matmul_4bit: in_features must be divisible by block_size");
  const int64_t code_bytes = n * k / 2, scale_bytes = n * (k / block) * 4;
  const int64_t bias_bytes = packed.numel() - code_bytes - scale_bytes;
  TORCH_CHECK(packed.scalar_type() == at::kByte && packed.is_contiguous() && (bias_bytes == 0 || bias_bytes == n * 4),
              "_dyn_quant_matmul_4bit: the weights were packed with other sizes");
  ops::QuantizedMatrix w = int4_matrix(packed, n, k, block);
  const Tensor scales = packed.narrow(0, code_bytes, scale_bytes).view(at::kFloat).view({n, k / block});
  w.scales = view(scales);
  OptionalTensor bias;
  if (bias_bytes) bias = packed.narrow(0, code_bytes + scale_bytes, bias_bytes).view(at::kFloat);
  return product(rounded_rows(x.to(at::kFloat)), w, bias).to(x.scalar_type());
}

// ---- torch_ocl.quantize_

WeightFormat format_of(c10::string_view name) {
  static constexpr std::pair<const char*, WeightFormat> names[] = {
      {"int8", WeightFormat::int8}, {"float8", WeightFormat::float8}, {"int4", WeightFormat::int4},
      {"nf4", WeightFormat::nf4},   {"fp4", WeightFormat::fp4},       {"bnb_fp4", WeightFormat::bnb_fp4},
      {"q8_0", WeightFormat::q8_0}, {"q4_0", WeightFormat::q4_0},     {"q4_k", WeightFormat::q4_k},
      {"q6_k", WeightFormat::q6_k}};
  for (const auto& [known, format] : names)
    if (name == known) return format;
  TORCH_CHECK_VALUE(false, "unknown format of weights ", name,
                    ": expected int8, float8, int4, nf4, fp4, bnb_fp4, q8_0, q4_0, q4_k or q6_k");
}

ops::QuantizedMatrix matrix_of(const Tensor& codes, const OptionalTensor& scales, const OptionalTensor& offsets,
                               c10::string_view format, int64_t k, int64_t group) {
  ops::QuantizedMatrix w;
  w.format = format_of(format);
  TORCH_CHECK_VALUE(codes.dim() == 2 && codes.scalar_type() == at::kByte && codes.is_contiguous() &&
                        codes.size(1) == ops::code_bytes(w.format, k),
                    "quantized weights must be contiguous uint8 of [n, ", ops::code_bytes(w.format, k), "], but got ",
                    codes.sizes(), " of ", codes.dtype());
  w.codes = address(codes);
  w.n = codes.size(0), w.k = k, w.pitch = codes.size(1), w.group = group;
  TORCH_CHECK_VALUE(ops::has_blocks(w.format) != (scales && scales->defined()), "weights of ", format,
                    ops::has_blocks(w.format) ? " hold their scales" : " need scales");
  if (scales && scales->defined()) w.scales = view(*scales);
  if (offsets && offsets->defined()) w.offsets = view(*offsets);
  return w;
}

// x [..., k], codes uint8 [n, bytes of a row], scales and offsets [n, groups] (GGUF's blocks: none), bias [n]: [...,
// n].
Tensor quantized_linear(const Tensor& x, const Tensor& codes, const OptionalTensor& scales,
                        const OptionalTensor& offsets, const OptionalTensor& bias, c10::string_view format,
                        int64_t group) {
  TORCH_CHECK(x.dim() >= 1, "quantized_linear: the input needs at least one dimension");
  const int64_t k = x.size(-1);
  const ops::QuantizedMatrix w = matrix_of(codes, scales, offsets, format, k, group);
  at::DimVector shape(x.sizes());
  shape.back() = w.n;
  return product(x.reshape({c10::multiply_integers(x.sizes().slice(0, shape.size() - 1)), k}), w, bias).view(shape);
}

Tensor dequantize_weight(const Tensor& codes, const OptionalTensor& scales, const OptionalTensor& offsets,
                         c10::string_view format, int64_t k, int64_t group, at::ScalarType type) {
  const c10::DeviceGuard guard(codes.device());
  const ops::QuantizedMatrix w = matrix_of(codes, scales, offsets, format, k, group);
  Tensor out = at::empty({w.n, k}, codes.options().dtype(type));
  ops::unpack(queue_for(codes), w, view(out));
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_weight_int8pack_mm", weight_int8pack_mm);
  m.impl("_int_mm", int_mm);
  m.impl("_int_mm.out", int_mm_out);
  m.impl("_convert_weight_to_int4pack", convert_weight_to_int4pack);
  m.impl("_convert_weight_to_int4pack_for_cpu", convert_weight_to_int4pack_for_cpu);
  m.impl("_weight_int4pack_mm", weight_int4pack_mm);
  m.impl("_weight_int4pack_mm_for_cpu", weight_int4pack_mm_for_cpu);
  m.impl("_dyn_quant_pack_4bit_weight", dyn_quant_pack_4bit_weight);
  m.impl("_dyn_quant_matmul_4bit", dyn_quant_matmul_4bit);
}

TORCH_LIBRARY_FRAGMENT(ocl, m) {
  m.def(
      "quantized_linear(Tensor x, Tensor codes, Tensor? scales, Tensor? offsets, Tensor? bias, str format, int group) "
      "-> Tensor");
  m.def(
      "dequantize_weight(Tensor codes, Tensor? scales, Tensor? offsets, str format, int columns, int group, "
      "ScalarType dtype) -> Tensor");
}
TORCH_LIBRARY_IMPL(ocl, PrivateUse1, m) {
  m.impl("quantized_linear", quantized_linear);
  m.impl("dequantize_weight", dequantize_weight);
}

}  // namespace ocl::aten
