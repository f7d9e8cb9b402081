#include "ops/conv/pointwise.h"

#include "ops/conv/plan.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gemm/gemm.h"

namespace ocl::ops {
namespace {

const char* refuses(const ConvProblem& p, const PlanTarget&) {
  if (!p.channels_last) return "channels last only";
  if (p.groups != 1 || p.taps() != 1) return "one group and kernels of one tap only";
  if (p.padding != std::array<int64_t, 3>{0, 0, 0}) return "without padding only";
  return nullptr;
}

bool strided(const ConvProblem& p) { return p.stride != std::array<int64_t, 3>{1, 1, 1}; }

// The pixels of x under the taps, packed.
size_t workspace(const ConvProblem& p) {
  return strided(p) ? static_cast<size_t>(p.batch * p.out_pixels() * p.in_channels) * size_of(p.dtype) : 0;
}

TensorView taps_of(const ConvProblem& p, void* x) {
  const int64_t c = p.in_channels, row = p.input[2] * c, plane = p.input[1] * row;
  const int64_t sizes[] = {p.batch, p.output[0], p.output[1], p.output[2], c};
  const int64_t strides[] = {p.input[0] * plane, p.stride[0] * plane, p.stride[1] * row, p.stride[2] * c, 1};
  return TensorView::strided(x, p.dtype, sizes, strides);
}

TensorView packed(const ConvProblem& p, void* data) {
  return TensorView::contiguous(data, p.dtype, {p.batch, p.output[0], p.output[1], p.output[2], p.in_channels});
}

// x, or its pixels under the taps.
const void* source(Queue& queue, const ConvProblem& p, void* x, void* workspace) {
  if (!strided(p)) return x;
  copy(queue, packed(p, workspace), taps_of(p, x));
  return workspace;
}

GemmProblem product(const ConvProblem& p, int64_t m, int64_t n, int64_t k, MatrixStrides a, MatrixStrides b) {
  GemmProblem g;
  g.dtype = p.dtype;
  g.rounding = Tf32::conv;
  g.m = m, g.n = n, g.k = k;
  g.a = a, g.b = b;
  g.c = g.d = GemmProblem::row_major(m, n);
  return g;
}

void forward(Queue& queue, const ConvProblem& p, const ConvOperands& t, void* workspace) {
  const int64_t pixels = p.batch * p.out_pixels(), c = p.in_channels, o = p.out_channels;
  GemmProblem g = product(p, pixels, o, c, GemmProblem::row_major(pixels, c), GemmProblem::transposed(o, c));
  g.d = {0, 0, 1};
  g.beta = t.bias ? 1 : 0;
  gemm(queue, g, {source(queue, p, t.x, workspace), t.w, t.y, t.bias});
}

void backward_data(Queue& queue, const ConvProblem& p, const ConvOperands& t, void* workspace) {
  const int64_t pixels = p.batch * p.out_pixels(), c = p.in_channels, o = p.out_channels;
  gemm(queue, product(p, pixels, c, o, GemmProblem::row_major(pixels, o), GemmProblem::row_major(o, c)),
       {t.y, t.w, strided(p) ? workspace : t.x, nullptr});
  if (!strided(p)) return;
  zero(queue, TensorView::contiguous(t.x, p.dtype, {p.x_numel()}));
  copy(queue, taps_of(p, t.x), packed(p, workspace));
}

void backward_weight(Queue& queue, const ConvProblem& p, const ConvOperands& t, void* workspace) {
  const int64_t pixels = p.batch * p.out_pixels(), c = p.in_channels, o = p.out_channels;
  gemm(queue, product(p, o, c, pixels, GemmProblem::transposed(pixels, o), GemmProblem::row_major(pixels, c)),
       {t.y, source(queue, p, t.x, workspace), t.w, nullptr});
}

}  // namespace

std::span<const ConvAlgorithm> pointwise_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"pointwise", ConvPass::forward, plain_plan<refuses, forward, workspace>},
      {"pointwise", ConvPass::backward_data, plain_plan<refuses, backward_data, workspace>},
      {"pointwise", ConvPass::backward_weight, plain_plan<refuses, backward_weight, workspace>},
  };
  return algorithms;
}

}  // namespace ocl::ops
