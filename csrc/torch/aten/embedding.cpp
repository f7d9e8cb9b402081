// Embedding tables and bags. embedding itself is ATen's composite of index_select.
#include "ops/embedding/embedding.h"

#include "torch/aten/common.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorUtils.h>
#include <ATen/ops/_embedding_bag_backward_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/promote_types.h>
#include <ATen/ops/zeros.h>

namespace ocl::aten {
namespace {

bool deterministic() { return at::globalContext().deterministicAlgorithms(); }

void check_indices(const char* op, const at::Tensor& indices, const at::Tensor& other) {
  TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt, op,
              ": Expected indices to have scalar type Long or Int, but got ", indices.scalar_type());
  TORCH_CHECK(indices.device() == other.device(), op, ": Expected all tensors to be on the same device, but got ",
              indices.device(), " and ", other.device());
}

at::Tensor embedding_dense_backward(const at::Tensor& grad_output, const at::Tensor& indices_, int64_t num_weights,
                                    int64_t padding_idx, bool by_frequency) {
  const c10::OptionalDeviceGuard guard(at::device_of(grad_output));
  check_indices("embedding_backward", indices_, grad_output);
  const at::Tensor indices = indices_.contiguous().view({-1}),
                   grad = grad_output.contiguous().view({indices.numel(), grad_output.size(-1)});
  at::Tensor result = at::empty({num_weights, grad_output.size(-1)}, grad.options());
  ops::EmbeddingGradient how;
  how.padding = padding_idx;
  how.by_frequency = by_frequency;
  ops::embedding_backward(queue_for(grad), view(result), view(grad), view(indices), how, deterministic());
  return result;
}

at::Tensor& embedding_renorm_(at::Tensor& self, const at::Tensor& indices, double max_norm, double norm_type) {
  const c10::OptionalDeviceGuard guard(at::device_of(self));
  TORCH_CHECK(self.dim() == 2, "embedding_renorm_: expected a matrix, but got ", self.dim(), " dimensions");
  check_indices("embedding_renorm_", indices, self);
  const at::Tensor positions = indices.contiguous();
  const auto table = contiguous(self);
  ops::embedding_renorm(queue_for(self), view(*table), view(positions), max_norm, norm_type);
  if (!table->is_same(self)) self.copy_(*table);
  return self;
}

using BagResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

BagResult embedding_bag(const at::Tensor& weight, const at::Tensor& indices_, const at::Tensor& offsets_, bool,
                        int64_t mode, bool, const std::optional<at::Tensor>& weights_, bool include_last_offset,
                        int64_t padding_idx) {
  const c10::OptionalDeviceGuard guard(at::device_of(weight));
  check_indices("embedding_bag", indices_, weight);
  check_indices("embedding_bag", offsets_, weight);
  TORCH_CHECK(weight.dim() == 2 && indices_.dim() == 1 && offsets_.dim() == 1,
              "embedding_bag: expected a matrix of weights and vectors of indices and offsets");
  const at::ScalarType index_type = at::promote_types(indices_.scalar_type(), offsets_.scalar_type());
  const at::Tensor table = weight.contiguous(), indices = indices_.to(index_type).contiguous(),
                   offsets = offsets_.to(index_type).contiguous();
  TORCH_CHECK(!include_last_offset || offsets.size(0) >= 1,
              "include_last_offset: number of offset should be at least 1");
  ops::EmbeddingBag problem{view(table), view(indices), view(offsets)};
  problem.bags = offsets.size(0) - (include_last_offset ? 1 : 0);
  problem.mode = static_cast<ops::BagMode>(mode);
  problem.padding = padding_idx;
  at::Tensor weights;
  ops::TensorView weights_view;
  if (weights_.has_value() && weights_->defined()) {
    TORCH_CHECK(mode == 0,
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
                "(got mode='",
                mode == 1 ? "mean" : "max", "'). Please open a feature request on GitHub.");
    TORCH_CHECK(weights_->sizes() == indices.sizes(), "expected per_sample_weights to be 1D tensor of size ",
                indices.size(0), ", but got ", weights_->sizes());
    TORCH_CHECK(weights_->scalar_type() == table.scalar_type(), "expected scalar type ", table.scalar_type(),
                " but found ", weights_->scalar_type());
    weights = weights_->contiguous();
    weights_view = view(weights);
    problem.weights = &weights_view;
  }
  at::Tensor out = at::empty({problem.bags, table.size(1)}, table.options());
  at::Tensor bag = at::zeros({indices.size(0)}, indices.options()), size = at::empty({problem.bags}, indices.options());
  at::Tensor best =
      mode == 2 ? at::empty({problem.bags, table.size(1)}, indices.options()) : at::empty({0}, indices.options());
  ops::embedding_bag(queue_for(table), problem, view(out), view(bag), view(size), view(best));
  return {out, bag, size, best};
}

// Gradient of a maximum: every bag gives its gradient, column by column, to the row that won.
at::Tensor bag_max_backward(const at::Tensor& grad, const at::Tensor& bag_size, const at::Tensor& best,
                            int64_t num_weights) {
  const at::Tensor result = at::zeros({num_weights, grad.size(1)}, grad.options());
  const at::Tensor empty = best.lt(0);
  return result.scatter_add(0, best.clamp_min(0).to(at::kLong), grad.masked_fill(empty, 0));
}

at::Tensor embedding_bag_dense_backward(const at::Tensor& grad_, const at::Tensor& indices,
                                        const at::Tensor& offset2bag, const at::Tensor& bag_size,
                                        const at::Tensor& maximum_indices, int64_t num_weights, bool by_frequency,
                                        int64_t mode, const std::optional<at::Tensor>& weights_, int64_t padding_idx) {
  const c10::OptionalDeviceGuard guard(at::device_of(grad_));
  check_indices("embedding_bag_backward", indices, grad_);
  const at::Tensor grad = grad_.contiguous();
  if (mode == 2) return bag_max_backward(grad, bag_size, maximum_indices, num_weights);
  at::Tensor result = at::empty({num_weights, grad.size(1)}, grad.options());
  const at::Tensor positions = indices.contiguous(), bag = offset2bag.to(indices.scalar_type()).contiguous(),
                   size = bag_size.to(indices.scalar_type()).contiguous();
  const at::Tensor weights = weights_.has_value() && weights_->defined() ? weights_->contiguous() : at::Tensor();
  const ops::TensorView bag_view = view(bag), size_view = view(size),
                        weights_view = weights.defined() ? view(weights) : ops::TensorView{};
  ops::EmbeddingGradient how;
  how.padding = padding_idx;
  how.by_frequency = by_frequency;
  how.bag = &bag_view;
  if (weights.defined()) how.weights = &weights_view;
  if (mode == 1) how.bag_size = &size_view;
  ops::embedding_backward(queue_for(grad), view(result), view(grad), view(positions), how, deterministic());
  return result;
}

at::Tensor embedding_bag_weights_backward(const at::Tensor& grad_, const at::Tensor& weight, const at::Tensor& indices,
                                          const at::Tensor&, const at::Tensor& offset2bag, int64_t mode,
                                          int64_t padding_idx) {
  const c10::OptionalDeviceGuard guard(at::device_of(grad_));
  TORCH_CHECK(mode == 0, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  check_indices("embedding_bag_backward", indices, grad_);
  const at::Tensor grad = grad_.contiguous(), table = weight.contiguous(), positions = indices.contiguous(),
                   bag = offset2bag.to(indices.scalar_type()).contiguous();
  at::Tensor result = at::empty({positions.size(0)}, grad.options());
  ops::embedding_bag_weights_backward(queue_for(grad), view(result), view(grad), view(table), view(positions),
                                      view(bag), padding_idx);
  return result;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("embedding_dense_backward", embedding_dense_backward);
  m.impl("embedding_renorm_", embedding_renorm_);
  m.impl("_embedding_bag", embedding_bag);
  m.impl("_embedding_bag_forward_only", embedding_bag);
  m.impl("_embedding_bag_backward", at::native::_embedding_bag_backward_symint);
  m.impl("_embedding_bag_dense_backward", embedding_bag_dense_backward);
  m.impl("_embedding_bag_per_sample_weights_backward", embedding_bag_weights_backward);
}

}  // namespace
}  // namespace ocl::aten
