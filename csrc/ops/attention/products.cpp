#include "ops/attention/products.h"

#include "opencl/capabilities/tensor_cores.h"
#include "ops/gemm/tensor_cores.h"

#include <algorithm>
#include <cmath>

namespace ocl::ops::attention_detail {
namespace {

constexpr size_t workspace_bytes = size_t{256} << 20;  // of one launch's scores, unless one head needs more

// One tensor's matrices [rows, columns] of the heads of a chunk.
struct Matrices {
  void* data;
  int64_t outer, head, row;  // strides: batch, head, row
};

class Products {
 public:
  Products(Queue& queue, const TensorView& q, const TensorView& k, const TensorView& bias,
           const AttentionOptions& options)
      : queue_(queue),
        q_(q),
        k_(k),
        bias_(bias),
        options_(options),
        type_(q.dtype),
        heads_(q.size(1)),
        key_heads_(k.size(1)),
        length_(q.size(2)),
        keys_(k.size(2)),
        pitch_(round_up(k.size(2), 8)) {}

  int64_t group() const { return heads_ / key_heads_; }
  bool in_place() const { return type_ == DType::float32; }  // weights take the scores' place

  // Calls work for heads [h, h + count) of batches [b, b + batches); `element_bytes`: of the workspace, per score.
  template <class Work>
  void each_chunk(size_t element_bytes, const Work& work) {
    const size_t head = static_cast<size_t>(length_ * pitch_) * element_bytes;
    const auto fitting = static_cast<int64_t>(workspace_bytes / head);
    batches_ = fitting >= q_.size(0) * heads_ ? q_.size(0) : 1;
    count_ = batches_ > 1 || fitting >= heads_ ? heads_ : std::max(group(), fitting / group() * group());
    for (b_ = 0; b_ < q_.size(0); b_ += batches_)
      for (h_ = 0; h_ < heads_; h_ += step_) {
        step_ = std::min(count_, heads_ - h_);
        work(static_cast<size_t>(batches_ * step_) * head / element_bytes);
      }
  }

  // The chunk's part of a tensor [B, heads, rows, columns]; of one of key heads.
  Matrices of(const TensorView& t) const { return part(t, h_); }
  Matrices of_keys(const TensorView& t) const { return part(t, h_ / group()); }
  Matrices scores(void* data) const { return {data, step_ * length_ * pitch_, length_ * pitch_, pitch_}; }

  // c[L, n] = alpha a[L, k] b, for every query head; b of key heads: [k, n], or its transpose.
  void from_keys(const Matrices& a, const Matrices& b, bool transposed, const Matrices& c, int64_t n, int64_t k,
                 double alpha, DType out) {
    GemmProblem p = problem(batches_ * step_, length_, n, k, alpha);
    p.a = {a.head, a.row, 1};
    p.b = {b.head, transposed ? 1 : b.row, transposed ? b.row : 1};
    p.c = p.d = {c.head, c.row, 1};
    multiply_rows_of_matrices(queue_, p, {a.data, b.data, c.data, nullptr}, {step_, a.outer, b.outer, c.outer, group()},
                              out);
  }

  // c[S, n] = alpha * sum over the query heads of a key head of a^T b; a [L, S] are scores, b [L, n].
  void to_keys(const Matrices& a, const Matrices& b, const Matrices& c, int64_t n, double alpha) {
    const auto bytes = static_cast<int64_t>(size_of(type_));
    for (int64_t member = 0; member < group(); ++member) {
      GemmProblem p = problem(batches_ * step_ / group(), keys_, n, length_, alpha);
      p.a = {a.head * group(), 1, a.row};
      p.b = {b.head * group(), b.row, 1};
      p.c = p.d = {c.head, c.row, 1};
      p.beta = member > 0 ? 1 : 0;
      const GemmOperands o{static_cast<char*>(a.data) + member * a.head * bytes,
                           static_cast<char*>(b.data) + member * b.head * bytes, c.data, c.data};
      multiply_rows_of_matrices(queue_, p, o, {step_ / group(), a.outer, b.outer, c.outer, 1}, type_);
    }
  }

  // A kernel between the products, over the rows of the chunk's scores.
  template <class... Operands>
  void rows(KernelSite& site, const Operands&... operands) {
    const bool dropout = options_.dropout > 0;
    Kernel& kernel = site.get(queue_.device(), Variant().add(type_).add(bool(bias_), 1).add(dropout, 1), [&] {
      Defines defines;
      return dtype(defines, "X_DTYPE", type_).add("BIAS", bool(bias_)).add("DROPOUT", dropout);
    });
    const auto i = [](int64_t n) { return static_cast<int32_t>(n); };
    const double keep = 1 - options_.dropout;
    const auto stride = [&](int d) { return bias_ ? bias_.stride(d) : int64_t{0}; };
    launch(queue_, kernel, Range(static_cast<size_t>(length_) * 128, static_cast<size_t>(batches_ * step_)),
           Range(128, 1), operands..., stride(0), stride(1), stride(2), i(heads_), i(length_), i(keys_), i(pitch_),
           i(b_ * heads_ + h_), int32_t{options_.causal}, options_.state.seed, options_.state.offset,
           static_cast<uint32_t>(std::min(std::ldexp(keep, 32), 4294967295.0)), static_cast<float>(1 / keep));
  }

 private:
  Matrices part(const TensorView& t, int64_t head) const {
    const int64_t first = b_ * t.stride(0) + head * t.stride(1);
    return {static_cast<char*>(t.data) + first * static_cast<int64_t>(size_of(t.dtype)), t.stride(0), t.stride(1),
            t.stride(2)};
  }
  GemmProblem problem(int64_t batch, int64_t m, int64_t n, int64_t k, double alpha) const {
    GemmProblem p;
    p.dtype = type_;
    p.batch = batch, p.m = m, p.n = n, p.k = k;
    p.alpha = alpha;
    return p;
  }

  Queue& queue_;
  const TensorView &q_, &k_, &bias_;
  const AttentionOptions& options_;
  DType type_;
  int64_t heads_, key_heads_, length_, keys_, pitch_;
  int64_t b_ = 0, h_ = 0, batches_ = 1, count_ = 1, step_ = 1;
};

}  // namespace

bool by_products(const Device& device, const TensorView& q, const TensorView& k) {
  return q.size(2) >= 16 && k.size(2) >= 16 && has_tensor_cores(device);
}

void forward_by_products(Queue& queue, const TensorView& q, const TensorView& k, const TensorView& v,
                         const TensorView& bias, const TensorView& out, const TensorView& lse,
                         const AttentionOptions& options) {
  static KernelSite softmax("attention/scores.gpu.cl", "scores_softmax");
  Products products(queue, q, k, bias, options);
  const size_t bytes = size_of(q.dtype);
  products.each_chunk(sizeof(float) + (products.in_place() ? 0 : bytes), [&](size_t count) {
    Workspace scores(queue, count * sizeof(float)), separate(queue, products.in_place() ? 0 : count * bytes);
    void* const weights = products.in_place() ? scores.data() : separate.data();
    products.from_keys(products.of(q), products.of_keys(k), true, products.scores(scores.data()), k.size(2), q.size(3),
                       options.scale, DType::float32);
    products.rows(softmax, scores.data(), bias.data, weights, lse.data);
    products.from_keys(products.scores(weights), products.of_keys(v), false, products.of(out), v.size(3), k.size(2), 1,
                       q.dtype);
  });
}

void backward_by_products(Queue& queue, const TensorView& q, const TensorView& k, const TensorView& v,
                          const TensorView& bias, const TensorView& dout, const TensorView& lse, const void* delta,
                          const TensorView& dq, const TensorView& dk, const TensorView& dv,
                          const AttentionOptions& options) {
  static KernelSite gradient("attention/scores.gpu.cl", "scores_gradient");
  Products products(queue, q, k, bias, options);
  const size_t bytes = size_of(q.dtype);
  products.each_chunk(2 * (sizeof(float) + (products.in_place() ? 0 : bytes)), [&](size_t count) {
    Workspace scores(queue, count * sizeof(float)), dp(queue, count * sizeof(float));
    Workspace separate_weights(queue, products.in_place() ? 0 : count * bytes),
        separate_gradients(queue, products.in_place() ? 0 : count * bytes);
    void* const weights = products.in_place() ? scores.data() : separate_weights.data();
    void* const gradients = products.in_place() ? dp.data() : separate_gradients.data();
    products.from_keys(products.of(q), products.of_keys(k), true, products.scores(scores.data()), k.size(2), q.size(3),
                       options.scale, DType::float32);
    products.from_keys(products.of(dout), products.of_keys(v), true, products.scores(dp.data()), k.size(2), v.size(3),
                       1, DType::float32);
    products.rows(gradient, scores.data(), dp.data(), bias.data, lse.data, delta, weights, gradients);
    products.to_keys(products.scores(weights), products.of(dout), products.of_keys(dv), v.size(3), 1);
    products.to_keys(products.scores(gradients), products.of(q), products.of_keys(dk), q.size(3), options.scale);
    products.from_keys(products.scores(gradients), products.of_keys(k), false, products.of(dq), q.size(3), k.size(2),
                       options.scale, DType::float32);
  });
}

}  // namespace ocl::ops::attention_detail
