#include "ops/quantized/quantized.h"

#include "opencl/capabilities/prefetch.h"
#include "ops/core/lanes.h"
#include "ops/gemm/algorithms.h"
#include "params/quantized.h"

namespace ocl::ops {
namespace {

constexpr int64_t max_rows = params::quantized_rows, max_columns = params::quantized_columns;
constexpr int64_t block = 32;  // as in kernels_cl/quantized
constexpr int64_t unpacked_blocks = 64, gpu_items = 64, gpu_rows = 4;
constexpr int64_t unpacked_bytes = 4 << 20;  // of weights that gemm multiplies at a time: they stay in the caches

int64_t unit_codes(WeightFormat format) {
  return format == WeightFormat::q4_k || format == WeightFormat::q6_k ? 256 : block;
}

int64_t unit_bytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::int8:
    case WeightFormat::float8: return 32;
    case WeightFormat::q8_0: return 34;
    case WeightFormat::q4_0: return 18;
    case WeightFormat::q4_k: return 144;
    case WeightFormat::q6_k: return 210;
    default: return 16;
  }
}

using params::QuantizedArguments;

QuantizedArguments arguments_of(const QuantizedMatrix& w) {
  QuantizedArguments a{};
  a.n = w.n, a.k = w.k, a.pitch = w.pitch;
  a.group = has_blocks(w.format) ? unit_codes(w.format) : w.group;
  if (w.scales) a.scale_row = w.scales.stride(0), a.scale_group = w.scales.stride(1);
  if (w.offsets) a.offset_row = w.offsets.stride(0), a.offset_group = w.offsets.stride(1);
  return a;
}

void check(const Device& device, const QuantizedMatrix& w, DType type) {
  require_floating(device, type, "quantized_product");
  require(type != DType::float64 && !is_complex(type), "quantized_product: float32, float16 or bfloat16 only");
  require(w.n >= 0 && w.k >= 0, "quantized_product: negative size");
  if (has_blocks(w.format)) {
    require(w.k % unit_codes(w.format) == 0, "quantized_product: rows must be whole blocks");
    require(w.pitch >= code_bytes(w.format, w.k) && w.pitch % 2 == 0, "quantized_product: rows of blocks overlap");
    return require(!w.scales && !w.offsets, "quantized_product: blocks hold their scales");
  }
  require(w.group > 0, "quantized_product: negative size");
  require(w.group % block == 0 || w.group >= w.k, "quantized_product: groups must be multiples of 32");
  const bool halves = code_bytes(w.format, block) < block;
  require(w.pitch >= (halves ? code_bytes(w.format, w.k) : w.k), "quantized_product: rows of codes overlap");
  const int64_t groups = ceil_div(w.k, w.group);
  auto fits = [&](const TensorView& t) { return t.dims == 2 && t.size(0) == w.n && t.size(1) == groups; };
  require(fits(w.scales), "quantized_product: scales must be [n, groups]");
  require(!w.offsets || (fits(w.offsets) && w.offsets.dtype == w.scales.dtype),
          "quantized_product: offsets must be like the scales");
  require(w.scales.dtype == DType::float32 || is_half(w.scales.dtype),
          "quantized_product: scales must be float32, float16 or bfloat16");
}

Variant variant_of(const QuantizedMatrix& w, DType type) {
  const DType scale = w.scales ? w.scales.dtype : DType::float32;
  return Variant().add(type).add(scale).add(static_cast<uint64_t>(w.format), 4).add(bool(w.offsets), 1);
}

Defines defines_of(const Device& device, const QuantizedMatrix& w, DType type) {
  Defines defines;
  dtype(defines, "DTYPE", type);
  dtype(defines, "SCALE_DTYPE", w.scales ? w.scales.dtype : DType::float32);
  add_prefetch_define(defines, device);
  return defines.add("WIDE", 0)
      .add("SINGLE", type == DType::float32)
      .add("OFFSET", bool(w.offsets))
      .add("INT8", w.format == WeightFormat::int8)
      .add("FLOAT8", w.format == WeightFormat::float8)
      .add("INT4", w.format == WeightFormat::int4)
      .add("NF4", w.format == WeightFormat::nf4)
      .add("FP4", w.format == WeightFormat::fp4)
      .add("BNB_FP4", w.format == WeightFormat::bnb_fp4)
      .add("Q8_0", w.format == WeightFormat::q8_0)
      .add("Q4_0", w.format == WeightFormat::q4_0)
      .add("Q4_K", w.format == WeightFormat::q4_k)
      .add("Q6_K", w.format == WeightFormat::q6_k);
}

Kernel& kernel(KernelSite& site, Device& device, const QuantizedMatrix& w, DType type) {
  return site.get(device, variant_of(w, type), [&] { return defines_of(device, w, type); });
}

const void* or_other(const TensorView& t, const void* other) { return t ? t.data : other; }

void multiply_codes(Queue& queue, const TensorView& x, const QuantizedMatrix& w, const TensorView& bias,
                    const TensorView& y) {
  static KernelSite cpu("quantized/products.cpu.cl", "quantized_products"),
      gpu("quantized/products.gpu.cl", "quantized_products");
  Device& device = queue.device();
  QuantizedArguments arguments = arguments_of(w);
  arguments.m = x.size(0);
  arguments.x_row = x.stride(0);
  arguments.has_bias = bool(bias);
  const int64_t units = device.capabilities().compute_units;
  // About 8 tasks for each unit.
  arguments.columns = static_cast<int32_t>(std::clamp<int64_t>(round_up(ceil_div(w.n, 8 * units), 4), 4, max_columns));
  const bool tasks = device.cpu_style();
  const Range global =
      tasks ? Range(ceil_div(w.n, arguments.columns)) : Range(w.n * gpu_items, ceil_div(arguments.m, gpu_rows));
  launch(queue, kernel(tasks ? cpu : gpu, device, w, x.dtype), global, tasks ? Range(1) : Range(gpu_items, 1), x.data,
         w.codes, or_other(w.scales, w.codes), or_other(w.offsets, w.codes), or_other(bias, x.data), y.data, arguments);
}

// Rows row0 to row0 + rows - 1 to `out` [rows, k].
void unpack_rows(Queue& queue, const QuantizedMatrix& w, int64_t row0, int64_t rows, DType type, void* out) {
  static KernelSite site("quantized/unpack.cl", "quantized_unpack");
  Device& device = queue.device();
  const Range global(ceil_div(w.k, unpacked_blocks * block), rows);
  launch(queue, kernel(site, device, w, type), global, device.cpu_style() ? Range(1, 1) : Range(), w.codes,
         or_other(w.scales, w.codes), or_other(w.offsets, w.codes), out, arguments_of(w), row0);
}

// y[:, row0 ..] = x W^T + bias for `rows` rows of W, whose numbers are dense.
GemmProblem problem_of(const TensorView& x, int64_t n, int64_t rows, bool bias) {
  GemmProblem p;
  p.dtype = x.dtype;
  p.m = x.size(0), p.n = rows, p.k = x.size(1);
  p.a = {0, x.stride(0), 1}, p.b = {0, 1, p.k}, p.c = {0, n, 1}, p.d = {0, 0, 1};
  p.beta = bias ? 1 : 0;
  return p;
}

// Numbers are made where panels are packed: they are never written to memory.
void multiply_panels(Queue& queue, const GemmProblem& p, const TensorView& x, const QuantizedMatrix& w,
                     const TensorView& bias, const TensorView& y) {
  static KernelSite site("quantized/panels.cpu.cl", "quantized_panels");
  Device& device = queue.device();
  const auto [tile, split, carry_bytes] = gemm_detail::plan_unpacked(p, PlanTarget(device), unit_codes(w.format));
  Kernel& kernel = site.get(device, variant_of(w, x.dtype), [&, &tile = tile] {
    return defines_of(device, w, x.dtype)
        .add("PAIRS", 1)
        .add("DEEP", 0)
        .add("DIRECT", 0)
        .add("MC", tile.mc)
        .add("NC", tile.nc)
        .add("KC", tile.kc);
  });
  Workspace carry(queue, carry_bytes);
  void* sums = carry_bytes ? carry.data() : nullptr;
  const PanelPlan plan = gemm_detail::panel_plan(p, split, sums);
  launch(queue, kernel, Range(ceil_div(p.m, plan.mc), ceil_div(p.n, plan.nc)), Range(1, 1), x.data, w.codes,
         or_other(w.scales, w.codes), or_other(w.offsets, w.codes), y.data, or_other(bias, y.data),
         sums ? sums : y.data, gemm_detail::gemm_arguments(p), plan, arguments_of(w));
}

void multiply_unpacked(Queue& queue, const TensorView& x, const QuantizedMatrix& w, const TensorView& bias,
                       const TensorView& y) {
  const GemmProblem whole = problem_of(x, w.n, w.n, bool(bias));
  if (w.k > 0 && gemm_detail::multiplies_pairs(whole, PlanTarget(queue.device())))
    return multiply_panels(queue, whole, x, w, bias, y);
  const auto width = static_cast<int64_t>(size_of(x.dtype));
  const int64_t part = std::clamp<int64_t>(unpacked_bytes / (w.k * width) / 64 * 64, 64, round_up(w.n, 64));
  Workspace unpacked(queue, static_cast<size_t>(std::min(part, w.n) * w.k * width));
  for (int64_t row0 = 0; row0 < w.n; row0 += part) {
    const int64_t rows = std::min(part, w.n - row0);
    unpack_rows(queue, w, row0, rows, x.dtype, unpacked.data());
    auto* to = static_cast<char*>(y.data) + row0 * width;
    const auto* added = bias ? static_cast<const char*>(bias.data) + row0 * width : nullptr;
    gemm(queue, problem_of(x, w.n, rows, bool(bias)), {x.data, unpacked.data(), to, added});
  }
}

}  // namespace

int64_t code_bytes(WeightFormat format, int64_t k) { return ceil_div(k, unit_codes(format)) * unit_bytes(format); }

void quantized_product(Queue& queue, const TensorView& x, const QuantizedMatrix& w, const TensorView& bias,
                       const TensorView& y) {
  check(queue.device(), w, x.dtype);
  require(x.dims == 2 && x.size(1) == w.k && (x.stride(1) == 1 || w.k <= 1), "quantized_product: x must be [m, k]");
  require(y.dims == 2 && y.size(0) == x.size(0) && y.size(1) == w.n && y.is_contiguous() && y.dtype == x.dtype,
          "quantized_product: y must be [m, n], contiguous, of x's dtype");
  require(!bias || (bias.dims == 1 && bias.size(0) == w.n && bias.is_contiguous() && bias.dtype == x.dtype),
          "quantized_product: bias must be [n], contiguous, of x's dtype");
  if (y.numel() == 0) return;
  if (x.size(0) <= max_rows) return multiply_codes(queue, x, w, bias, y);
  multiply_unpacked(queue, x, w, bias, y);
}

void unpack(Queue& queue, const QuantizedMatrix& w, const TensorView& out) {
  check(queue.device(), w, out.dtype);
  require(out.dims == 2 && out.size(0) == w.n && out.size(1) == w.k && out.is_contiguous(),
          "unpack: out must be [n, k], contiguous");
  if (out.numel() > 0) unpack_rows(queue, w, 0, w.n, out.dtype, out.data);
}

}  // namespace ocl::ops
