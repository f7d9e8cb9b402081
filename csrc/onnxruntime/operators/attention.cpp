// softmax(scale q k^T + mask) v, made by fusion.cpp: by the library's kernel, or step by step where it refuses.
#include "onnxruntime/operators/linear.h"
#include "ops/attention/attention.h"
#include "ops/softmax/softmax.h"

namespace ocl::ort {

namespace {

constexpr int swapped[] = {0, 1, 3, 2};

TensorView with_dense_rows(Run& run, const TensorView& view) {
  return view.stride(-1) == 1 || view.size(-1) == 1 ? view : run.dense(view);
}

// Whether q [B, H, L, E], k^T [B, H, E, S], v [B, H, S, F] are what the library's kernel takes.
bool takes(Run& run, const TensorView& q, const TensorView& k, const TensorView& v) {
  if (q.dims != 4 || k.dims != 4 || v.dims != 4 || q.numel() == 0 || k.numel() == 0 || v.numel() == 0) return false;
  if (k.size(0) != q.size(0) || v.size(0) != q.size(0) || k.size(1) != q.size(1) || v.size(1) != q.size(1))
    return false;
  return !ops::attention_refuses(run.queue().device(), q.dtype, q.size(-1), v.size(-1));
}

// The factor of the scores: a number, or an input that is no single number or not known to the host.
struct Factor {
  double scale = 1;
  bool computed = false, divides = false;
};

Factor factor_of(Run& run, Factor factor) {
  if (!run.has(4)) return factor;
  factor.computed = !run.on_host(4) || count_of(run.sizes(4)) != 1;
  if (!factor.computed) factor.scale = factor.divides ? 1 / run.host(4).real(0) : run.host(4).real(0);
  return factor;
}

void in_steps(Run& run, const TensorView& q, const TensorView& k, const TensorView& v, const Factor& factor) {
  const auto leading = [](const TensorView& x) { return Sizes(x.sizes.begin(), x.sizes.begin() + x.dims - 2); };
  need(q.dims >= 2 && k.dims >= 2 && v.dims >= 2 && q.size(-1) == k.size(-2), "the inner sizes differ");
  Sizes sizes = broadcast_sizes(std::array{leading(q), leading(k)});
  sizes.insert(sizes.end(), {q.size(-2), k.size(-1)});
  TensorView scores = run.scratch(q.dtype, sizes);
  multiply(run, q, k, scores);
  const DType compute = ops::compute_type(q.dtype);
  if (factor.computed) {
    const Sizes scaled = broadcast_sizes(std::array{sizes, run.sizes(4)});
    const TensorView product = run.scratch(q.dtype, scaled);
    if (product.numel())
      ops::elementwise(run.queue(), ops::elementwise_row(factor.divides ? "div" : "mul"), compute, product,
                       {broadcast(scores, scaled), broadcast(run.view(4), scaled)});
    scores = product, sizes = scaled;
  } else if (factor.scale != 1 && scores.numel()) {
    ops::elementwise(run.queue(), ops::elementwise_row("scale"), compute, scores, {scores}, {factor.scale});
  }
  if (run.has(3)) {
    const Sizes masked = broadcast_sizes(std::array{sizes, run.sizes(3)});
    const TensorView sum = run.scratch(q.dtype, masked);
    if (sum.numel())
      ops::elementwise(run.queue(), ops::elementwise_row("add"), compute, sum,
                       {broadcast(scores, masked), broadcast(run.view(3), masked)});
    scores = sum;
  }
  const TensorView weights = run.scratch(q.dtype, sizes_of(scores));
  if (scores.numel())
    ops::softmax_forward(run.queue(), ops::softmax_problem(scores, -1, q.dtype, false), scores.data, weights.data);
  Sizes result = broadcast_sizes(std::array{leading(weights), leading(v)});
  result.insert(result.end(), {weights.size(-2), v.size(-1)});
  need(weights.size(-1) == v.size(-2), "the inner sizes differ");
  multiply(run, weights, v, run.output(0, q.dtype, result));
}

Kernel attention(const Node& node) {
  const Factor given{node.number("scale", 1), false, node.integer("divides", 0) != 0};
  return [given](Run& run) {
    const TensorView q = run.view(0), k = run.view(1), v = run.view(2);
    const Factor scale = factor_of(run, given);
    if (scale.computed || !takes(run, q, k, v)) return in_steps(run, q, k, v, scale);
    const Sizes scores{q.size(0), q.size(1), q.size(2), k.size(-1)};
    TensorView mask;
    if (run.has(3)) {
      if (broadcast_sizes(std::array{scores, run.sizes(3)}) != scores) return in_steps(run, q, k, v, scale);
      mask = broadcast(run.view(3), scores);
      if (mask.stride(-1) != 1 && mask.size(-1) != 1) return in_steps(run, q, k, v, scale);
    }
    need(q.size(-1) == k.size(-2) && k.size(-1) == v.size(-2), "the inner sizes differ");
    const TensorView y = run.output(0, q.dtype, {q.size(0), q.size(1), q.size(2), v.size(-1)});
    const TensorView sums = run.scratch(DType::float32, {q.size(0), q.size(1), q.size(2)});
    ops::AttentionOptions options;
    options.scale = scale.scale;
    ops::attention(run.queue(), with_dense_rows(run, q), with_dense_rows(run, permuted(k, swapped)),
                   with_dense_rows(run, v), mask, y, sums, options);
  };
}

constexpr Operator rows[] = {{"Attention4D", floats, attention}};

}  // namespace

std::span<const Operator> attention_operators() { return rows; }

}  // namespace ocl::ort
