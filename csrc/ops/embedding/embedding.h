// Embedding tables: gradients of row look-ups, bags (sum, mean or max over several rows), renormalisation. Looking rows
// up is index_select (ops/index/index.h). A table is [rows, width], contiguous; indices are int64 or int32, contiguous,
// and count from 0; one outside [0, rows) is reported by check_device_errors() in the forward pass and skipped.
//
// Gradients are sums over the look-ups of each row. They are grouped by row first (counting sort), then every row of
// the table is written once, zeros included: no atomic floating-point additions, float32 accumulation for the half
// types.
#pragma once

#include "ops/core/context.h"

namespace ocl::ops {

// Look-ups by table row: order[starts[r] .. starts[r + 1]) are the positions that used row r. On CPU devices, and with
// `deterministic`, in increasing order.
class LookupGroups {
 public:
  LookupGroups(Queue& queue, const TensorView& indices, int64_t rows, bool deterministic);
  const void* starts() const { return starts_.data(); }  // int32 [rows + 1]
  const void* order() const { return order_.data(); }    // int32 [positions]
  int64_t rows() const { return rows_; }

 private:
  int64_t rows_;
  Workspace starts_, order_;
};

// How the gradient of one look-up is made from the rows of `grad`.
struct EmbeddingGradient {
  int64_t padding = -1;       // this row of the table gets no gradient
  bool by_frequency = false;  // divide by the number of look-ups of the row
  // Bags only: bag of each position, weight of each position (may be null; dtype of grad), elements of each bag (null:
  // not a mean).
  const TensorView* bag = nullptr;
  const TensorView* weights = nullptr;
  const TensorView* bag_size = nullptr;
};

// grad_table[r, :] = sum over look-ups p of row r: scale(p) * grad[bag ? bag[p] : p, :]. grad is contiguous [positions
// or bags, width].
void embedding_backward(Queue& queue, const TensorView& grad_table, const TensorView& grad, const TensorView& indices,
                        const EmbeddingGradient& how, bool deterministic);

enum class BagMode { sum = 0, mean = 1, max = 2 };

struct EmbeddingBag {
  TensorView table, indices, offsets;   // offsets[b]: first position of bag b; as many as there are bags, or one more
  const TensorView* weights = nullptr;  // per position, sum only
  BagMode mode = BagMode::sum;
  int64_t bags = 0, padding = -1;  // positions of row `padding` do not count
};
// out [bags, width]; bag [positions]: the bag of each position; bag_size [bags]: positions that counted; max_rows
// [bags, width] (max only): the row of the maximum, -1 for an empty bag. The integer results have the dtype of the
// indices.
void embedding_bag(Queue& queue, const EmbeddingBag& problem, const TensorView& out, const TensorView& bag,
                   const TensorView& bag_size, const TensorView& max_rows);

// grad_weights[p] = dot(grad[bag[p], :], table[indices[p], :]), 0 for the padding row.
void embedding_bag_weights_backward(Queue& queue, const TensorView& grad_weights, const TensorView& grad,
                                    const TensorView& table, const TensorView& indices, const TensorView& bag,
                                    int64_t padding);

// Rows that are looked up and whose p-norm exceeds max_norm are scaled to it, in place.
void embedding_renorm(Queue& queue, const TensorView& table, const TensorView& indices, double max_norm,
                      double norm_type);

}  // namespace ocl::ops
