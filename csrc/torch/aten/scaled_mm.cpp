// Products of 8-bit floating matrices with scales: _scaled_mm and its grouped form. The factors are widened to float32,
// which holds their products exactly.
#include "torch/aten/common.h"
#include "torch/aten/versions.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

namespace ocl::aten {
namespace {

using at::Tensor;

// One scale for all, or one for each row of the left (column of the right) factor.
bool scales_everything(const Tensor& scale) { return scale.scalar_type() == at::kFloat && scale.numel() == 1; }
bool scales_rows(const Tensor& scale, int64_t rows, int64_t columns) {
  return scale.scalar_type() == at::kFloat && scale.dim() == 2 && scale.size(0) == rows && scale.size(1) == columns &&
         scale.is_contiguous();
}

void check_scales(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b) {
  const int64_t m = a.size(0), n = b.size(1);
  const bool float8 = at::isFloat8Type(a.scalar_type()) && at::isFloat8Type(b.scalar_type());
  const bool whole = scales_everything(scale_a) && scales_everything(scale_b);
  TORCH_CHECK_VALUE(float8 && (whole || (scales_rows(scale_a, m, 1) && scales_rows(scale_b, 1, n))),
                    "Invalid scaling configuration.\n"
                    "- For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n"
                    "- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be (",
                    m, ", 1) and scale_b should be (1, ", n,
                    "), and both should be contiguous.\nGot a.dtype()=", a.scalar_type(),
                    ", scale_a.dtype()=", scale_a.scalar_type(), ", scale_a.size()=", scale_a.sizes(),
                    ", b.dtype()=", b.scalar_type(), ", scale_b.dtype()=", scale_b.scalar_type(),
                    ", scale_b.size()=", scale_b.sizes());
}

void check_shapes(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias) {
  TORCH_CHECK(a.dim() == 2, "mat_a must be a matrix");
  TORCH_CHECK(b.dim() == 2, "mat_b must be a matrix");
  TORCH_CHECK(a.size(1) == b.size(0), "mat_a and mat_b shapes cannot be multiplied (", a.size(0), "x", a.size(1),
              " and ", b.size(0), "x", b.size(1), ")");
  TORCH_CHECK(!bias || bias->numel() == b.size(1), "Bias must be size ", b.size(1), " but got ", bias->numel());
}

void check_device(const Tensor& a, std::initializer_list<const Tensor*> others) {
  for (const Tensor* other : others)
    TORCH_CHECK(!other->defined() || other->device() == a.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", a.device(), " and ",
                other->device(), "!");
}

// (a @ b) * scale_a * scale_b + bias in float32; only a result of 8 bits has a scale of its own.
Tensor product(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
               const std::optional<Tensor>& bias, const std::optional<Tensor>& scale_result, at::ScalarType type) {
  check_shapes(a, b, bias);
  const Tensor none;
  check_device(a, {&b, &scale_a, &scale_b, bias ? &*bias : &none, scale_result ? &*scale_result : &none});
  check_scales(a, b, scale_a, scale_b);
  Tensor result = at::mm(a.to(at::kFloat), b.to(at::kFloat));
  result.mul_(scale_a).mul_(scale_b);
  if (bias) result.add_(*bias);
  if (scale_result && at::isFloat8Type(type)) result.mul_(*scale_result);
  return result;
}

Tensor& scaled_mm_out(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                      const std::optional<Tensor>& bias, const std::optional<Tensor>& scale_result,
                      std::optional<at::ScalarType> out_dtype, bool, Tensor& out) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  TORCH_CHECK(!out_dtype || *out_dtype == out.scalar_type(), "out_dtype must match output matrix type");
  const Tensor result = product(self, mat2, scale_a, scale_b, bias, scale_result, out.scalar_type());
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

Tensor scaled_mm(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                 const std::optional<Tensor>& bias, const std::optional<Tensor>& scale_result,
                 std::optional<at::ScalarType> out_dtype, bool) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  const at::ScalarType type = out_dtype.value_or(self.scalar_type());
  return product(self, mat2, scale_a, scale_b, bias, scale_result, type).to(type);
}

// torch.nn.functional.ScalingType: the recipes that have one scale per tensor or per row.
constexpr int64_t tensor_wise = 0, row_wise = 1;

const Tensor& only_scale(const char* name, ScaleList scales, at::IntArrayRef recipe, at::IntArrayRef swizzle) {
  TORCH_CHECK_NOT_IMPLEMENTED(scales.size() == 1 && recipe.size() == 1 &&
                                  (recipe[0] == tensor_wise || recipe[0] == row_wise) &&
                                  (swizzle.empty() || swizzle[0] == 0),
                              name, ": only TensorWise and RowWise scaling are implemented on ocl devices");
  return scales.front();
}

Tensor scaled_mm_v2(const Tensor& self, const Tensor& mat2, ScaleList scale_a, at::IntArrayRef recipe_a,
                    at::IntArrayRef swizzle_a, ScaleList scale_b, at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b,
                    const std::optional<Tensor>& bias, std::optional<at::ScalarType> out_dtype, at::IntArrayRef,
                    bool fast) {
  return scaled_mm(self, mat2, only_scale("_scaled_mm_v2", scale_a, recipe_a, swizzle_a),
                   only_scale("_scaled_mm_v2", scale_b, recipe_b, swizzle_b), bias, std::nullopt, out_dtype, fast);
}

// ---- groups

// Where the groups begin and end: `ends` of int32, in host memory.
std::vector<int64_t> ends_of(const Tensor& ends, int64_t groups, int64_t size) {
  TORCH_CHECK(ends.dim() == 1 && ends.scalar_type() == at::kInt, "Offsets tensor must be 1D and have dtype int32");
  TORCH_CHECK(groups < 0 || ends.size(0) == groups, "Expected offs.size(0) to be ", groups, ", but got ", ends.size(0));
  const Tensor host = ends.to(at::kCPU, at::kLong).contiguous();
  const std::vector<int64_t> result(host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel());
  int64_t before = 0;
  for (const int64_t end : result) {
    TORCH_CHECK(before <= end && end <= size, "offs must not decrease and be at most ", size, ", but got ", end);
    before = end;
  }
  return result;
}

// Group g of a tensor whose groups are slices of `dim`, or its g-th matrix.
Tensor part(const Tensor& t, int64_t g, const std::vector<int64_t>& ends, int64_t dim) {
  if (t.dim() == 3) return t.select(0, g);
  return t.slice(dim, g == 0 ? 0 : ends[static_cast<size_t>(g - 1)], ends[static_cast<size_t>(g)]);
}

// Scales of group g, which are `rows` of them: slices along with a grouped dimension, a row each, or rows one after
// another where the depth is grouped.
Tensor part_of_scale(const Tensor& scale, int64_t g, const std::vector<int64_t>& ends, bool sliced, int64_t rows) {
  if (scale.dim() == 2) return scale.select(0, g);
  if (!sliced) return scale.slice(0, g * rows, (g + 1) * rows);
  return scale.slice(0, g == 0 ? 0 : ends[static_cast<size_t>(g - 1)], ends[static_cast<size_t>(g)]);
}

void check_grouped(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                   const std::optional<Tensor>& offs, const std::optional<Tensor>& bias) {
  TORCH_CHECK(a.dim() == 2 || a.dim() == 3, "mat_a has to be 2 or 3d");
  TORCH_CHECK(b.dim() == 2 || b.dim() == 3, "mat_b has to be 2 or 3d");
  TORCH_CHECK(a.size(-1) == b.size(-2), "contraction dimension of mat_a and mat_b must match");
  TORCH_CHECK(at::isFloat8Type(a.scalar_type()) && at::isFloat8Type(b.scalar_type()),
              "Expected mat_a and mat_b to be float8 matrices, got ", a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(scale_a.scalar_type() == at::kFloat && scale_b.scalar_type() == at::kFloat,
              "For grouped FP8 rowwise, both scales must be float32 tensors");
  TORCH_CHECK(!bias, "Bias not supported yet");
  TORCH_CHECK(offs.has_value() == (a.dim() == 2 || b.dim() == 2),
              "Have to provide offsets if there is a 2d matrix, and only then");
  TORCH_CHECK(offs || a.size(0) == b.size(0), "batched dimension has to match");
  check_device(a, {&b, &scale_a, &scale_b});
}

Tensor scaled_grouped_mm(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                         const std::optional<Tensor>& offs, const std::optional<Tensor>& bias,
                         const std::optional<Tensor>&, std::optional<at::ScalarType> out_dtype, bool) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  check_grouped(self, mat2, scale_a, scale_b, offs, bias);
  const at::ScalarType type = out_dtype.value_or(at::kBFloat16);
  const bool flat_a = self.dim() == 2, flat_b = mat2.dim() == 2, by_depth = flat_a && flat_b;
  const int64_t batches = !flat_a ? self.size(0) : !flat_b ? mat2.size(0) : -1;
  const int64_t grouped = by_depth || flat_a ? self.size(by_depth ? 1 : 0) : mat2.size(1);
  const std::vector<int64_t> ends = offs ? ends_of(*offs, batches, grouped) : std::vector<int64_t>{};
  const int64_t groups = offs ? static_cast<int64_t>(ends.size()) : self.size(0);
  std::vector<Tensor> parts;
  for (int64_t g = 0; g < groups; ++g) {
    const Tensor a = part(self, g, ends, by_depth ? 1 : 0), b = part(mat2, g, ends, by_depth ? 0 : 1);
    const Tensor rows = part_of_scale(scale_a, g, ends, flat_a && !by_depth, a.size(0));
    const Tensor columns = part_of_scale(scale_b, g, ends, flat_b && !by_depth, b.size(1));
    TORCH_CHECK(rows.numel() == a.size(0) && columns.numel() == b.size(1), "scale must have as many elements as ",
                "the factor has rows (columns), got ", scale_a.sizes(), " and ", scale_b.sizes());
    Tensor result = at::mm(a.to(at::kFloat), b.to(at::kFloat));
    parts.push_back(result.mul_(rows.reshape({-1, 1})).mul_(columns.reshape({1, -1})).to(type));
  }
  if (by_depth || (!flat_a && !flat_b))
    return parts.empty() ? at::empty({0, self.size(-2), mat2.size(-1)}, self.options().dtype(type)) : at::stack(parts);
  // Rows (columns) behind the last group are not computed; they are zero here.
  Tensor out = at::zeros({self.size(-2), mat2.size(-1)}, self.options().dtype(type));
  if (!parts.empty()) {
    const int64_t dim = flat_a ? 0 : 1;
    out.narrow(dim, 0, ends.back()).copy_(at::cat(parts, dim));
  }
  return out;
}

Tensor scaled_grouped_mm_v2(const Tensor& self, const Tensor& mat2, ScaleList scale_a, at::IntArrayRef recipe_a,
                            at::IntArrayRef swizzle_a, ScaleList scale_b, at::IntArrayRef recipe_b,
                            at::IntArrayRef swizzle_b, const std::optional<Tensor>& offs,
                            const std::optional<Tensor>& bias, std::optional<at::ScalarType> out_dtype, at::IntArrayRef,
                            bool fast) {
  return scaled_grouped_mm(self, mat2, only_scale("_scaled_grouped_mm_v2", scale_a, recipe_a, swizzle_a),
                           only_scale("_scaled_grouped_mm_v2", scale_b, recipe_b, swizzle_b), offs, bias, std::nullopt,
                           out_dtype, fast);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_scaled_mm", scaled_mm);
  m.impl("_scaled_mm.out", scaled_mm_out);
  m.impl("_scaled_mm_v2", scaled_mm_v2);
  m.impl("_scaled_grouped_mm", scaled_grouped_mm);
  m.impl("_scaled_grouped_mm_v2", scaled_grouped_mm_v2);
}

}  // namespace ocl::aten
