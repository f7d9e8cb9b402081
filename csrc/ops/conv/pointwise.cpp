#include "ops/conv/pointwise.h"

#include "ops/gemm/gemm.h"

namespace ocl::ops {
namespace {

const char* refuses(const ConvProblem& p, const Device&) {
  if (!p.channels_last) return "channels last only";
  if (p.groups != 1 || p.taps() != 1) return "one group and kernels of one tap only";
  if (p.stride != std::array<int64_t, 3>{1, 1, 1} || p.padding != std::array<int64_t, 3>{0, 0, 0}) return "stride 1 without padding only";
  return nullptr;
}

size_t no_workspace(const ConvProblem&, const Device&) { return 0; }

GemmProblem product(const ConvProblem& p, int64_t m, int64_t n, int64_t k, MatrixStrides a, MatrixStrides b) {
  GemmProblem g;
  g.dtype = p.dtype;
  g.m = m, g.n = n, g.k = k;
  g.a = a, g.b = b;
  g.c = g.d = GemmProblem::row_major(m, n);
  return g;
}

void forward(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  const int64_t pixels = p.batch * p.out_pixels(), c = p.in_channels, o = p.out_channels;
  GemmProblem g = product(p, pixels, o, c, GemmProblem::row_major(pixels, c), GemmProblem::transposed(o, c));
  g.d = {0, 0, 1};
  g.beta = t.bias ? 1 : 0;
  gemm(queue, g, {t.x, t.w, t.y, t.bias});
}

void backward_data(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  const int64_t pixels = p.batch * p.out_pixels(), c = p.in_channels, o = p.out_channels;
  gemm(queue, product(p, pixels, c, o, GemmProblem::row_major(pixels, o), GemmProblem::row_major(o, c)), {t.y, t.w, t.x, nullptr});
}

void backward_weight(Queue& queue, const ConvProblem& p, const ConvOperands& t, void*) {
  const int64_t pixels = p.batch * p.out_pixels(), c = p.in_channels, o = p.out_channels;
  gemm(queue, product(p, o, c, pixels, GemmProblem::transposed(pixels, o), GemmProblem::row_major(pixels, c)), {t.y, t.x, t.w, nullptr});
}

}  // namespace

std::span<const ConvAlgorithm> pointwise_algorithms() {
  static const ConvAlgorithm algorithms[] = {
      {"pointwise", ConvPass::forward, refuses, no_workspace, forward},
      {"pointwise", ConvPass::backward_data, refuses, no_workspace, backward_data},
      {"pointwise", ConvPass::backward_weight, refuses, no_workspace, backward_weight},
  };
  return algorithms;
}

}  // namespace ocl::ops
