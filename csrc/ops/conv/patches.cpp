#include "ops/conv/patches.h"

#include "ops/conv/plan.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/permute.h"
#include "ops/gemm/gemm.h"

namespace ocl::ops {
namespace {

constexpr std::array<int64_t, 3> none{0, 0, 0}, ones{1, 1, 1};

const char* refuses(const ConvProblem& p, const PlanTarget&) {
  if (p.channels_last) return "channels first only";
  if (!is_floating(p.dtype)) return "floating types only";
  if (p.groups != 1) return "one group only";
  if (p.stride != p.kernel || p.padding != none || p.dilation != ones) return "windows must tile the image";
  return nullptr;
}

// Smaller kernels gather well.
const char* declines(const ConvProblem& p) { return p.taps() >= 36 ? nullptr : "small windows are gathered quicker"; }

int64_t depth(const ConvProblem& p) { return p.in_channels * p.taps(); }
int64_t patch_floats(const ConvProblem& p) { return p.batch * p.out_pixels() * depth(p); }

size_t workspace(const ConvProblem& p) { return static_cast<size_t>(patch_floats(p)) * size_of(p.dtype); }
size_t weight_workspace(const ConvProblem& p) {
  return static_cast<size_t>(patch_floats(p) + p.y_numel()) * size_of(p.dtype);
}

// [N, OD, OH, OW, C, KD, KH, KW]: of the image, and as rows.
std::array<int64_t, 8> sizes(const ConvProblem& p) {
  return {p.batch, p.output[0], p.output[1], p.output[2], p.in_channels, p.kernel[0], p.kernel[1], p.kernel[2]};
}
TensorView in_image(const ConvProblem& p, void* x) {
  const int64_t row = p.input[2], plane = p.input[1] * row, channel = p.in_pixels();
  const int64_t strides[] = {
      p.in_channels * channel, p.stride[0] * plane, p.stride[1] * row, p.stride[2], channel, plane, row, 1};
  return TensorView::strided(x, p.dtype, sizes(p), strides);
}
TensorView as_rows(const ConvProblem& p, void* data) {
  const auto s = sizes(p);
  return TensorView::contiguous(data, p.dtype, {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]});
}
void forward(Queue& queue, const ConvProblem& p, const ConvOperands& t, void* rows) {
  copy(queue, as_rows(p, rows), in_image(p, t.x));
  const int64_t pixels = p.out_pixels(), k = depth(p);
  GemmProblem g;
  g.dtype = p.dtype;
  g.rounding = Tf32::conv;
  g.batch = p.batch, g.m = p.out_channels, g.n = pixels, g.k = k;
  g.a = {0, k, 1};
  g.b = GemmProblem::transposed(pixels, k);
  g.c = GemmProblem::row_major(p.out_channels, pixels);
  g.d = {0, 1, 0};
  g.beta = t.bias ? 1 : 0;
  gemm(queue, g, {t.w, rows, t.y, t.bias});
}

void backward_data(Queue& queue, const ConvProblem& p, const ConvOperands& t, void* rows) {
  const int64_t pixels = p.out_pixels(), k = depth(p);
  GemmProblem g;
  g.dtype = p.dtype;
  g.rounding = Tf32::conv;
  g.batch = p.batch, g.m = pixels, g.n = k, g.k = p.out_channels;
  g.a = GemmProblem::transposed(p.out_channels, pixels);
  g.b = {0, k, 1};
  g.c = g.d = GemmProblem::row_major(pixels, k);
  gemm(queue, g, {t.y, t.w, rows, nullptr});
  if (patch_floats(p) < p.x_numel())  // what no window reaches
    zero(queue, TensorView::contiguous(t.x, p.dtype, {p.x_numel()}));
  copy(queue, in_image(p, t.x), as_rows(p, rows));
}

void backward_weight(Queue& queue, const ConvProblem& p, const ConvOperands& t, void* rows) {
  const int64_t pixels = p.out_pixels(), k = depth(p);
  void* dy = static_cast<char*>(rows) + static_cast<size_t>(patch_floats(p)) * size_of(p.dtype);  // [N, pixels, O]
  copy(queue, as_rows(p, rows), in_image(p, t.x));
  transpose_planes(queue, size_of(p.dtype), p.batch, p.out_channels, pixels, t.y, dy);
  GemmProblem g;
  g.dtype = p.dtype;
  g.rounding = Tf32::conv;
  g.m = p.out_channels, g.n = k, g.k = p.batch * pixels;
  g.a = GemmProblem::transposed(g.k, g.m);
  g.b = GemmProblem::row_major(g.k, k);
  g.c = g.d = GemmProblem::row_major(g.m, k);
  gemm(queue, g, {dy, rows, t.w, nullptr});
}

}  // namespace

std::span<const ConvAlgorithm> patches_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"patches", ConvPass::forward, plain_plan<refuses, forward, workspace, declines>},
      {"patches", ConvPass::backward_data, plain_plan<refuses, backward_data, workspace, declines>},
      {"patches", ConvPass::backward_weight, plain_plan<refuses, backward_weight, weight_workspace, declines>},
  };
  return algorithms;
}

}  // namespace ocl::ops
