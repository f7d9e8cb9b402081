// Scaled dot-product attention: F.scaled_dot_product_attention asks the choice stub, and takes the fused kernels
// (overrideable) where they can run the call, else ATen's composition of matrix products and softmax (math).
#include "ops/attention/attention.h"
#include "torch/aten/common.h"
#include "torch/runtime/generator.h"

#include <ATen/Context.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <cmath>

namespace ocl::aten {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// Sizes may be symbols while PyTorch traces a model.
bool is_same(const c10::SymInt& a, const c10::SymInt& b) { return TORCH_GUARD_OR_FALSE(a.sym_eq(b)); }
bool is_empty(const Tensor& t) { return is_same(t.sym_numel(), 0); }

bool fused_can_run(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& mask, double dropout) {
  if (!at::globalContext().userEnabledOverrideableSDP() || q.is_nested() || k.is_nested() || v.is_nested())
    return false;
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || is_empty(q) || is_empty(k) || is_empty(v)) return false;
  if (q.scalar_type() != k.scalar_type() || q.scalar_type() != v.scalar_type() || q.device() != k.device() ||
      q.device() != v.device())
    return false;
  if (!is_same(q.sym_size(0), k.sym_size(0)) || !is_same(k.sym_size(0), v.sym_size(0)) ||
      !is_same(k.sym_size(1), v.sym_size(1)) || !is_same(q.sym_size(1) % k.sym_size(1), 0))
    return false;
  if (mask && mask->defined() && (mask->requires_grad() || mask->device() != q.device() || mask->dim() > 4))
    return false;
  if (!(dropout >= 0 && dropout < 1)) return false;
  const Device& device = Device::get(q.device().index());
  const int64_t width = q.sym_size(3).guard_int(__FILE__, __LINE__),
                value_width = v.sym_size(3).guard_int(__FILE__, __LINE__);
  return ops::attention_refuses(device, dtype_of(q.scalar_type()), width, value_width) == nullptr;
}

int64_t choose(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& mask, double dropout,
               bool causal, std::optional<double> scale, bool enable_gqa) {
  const bool fused = fused_can_run(q, k, v, mask, dropout) && (enable_gqa || is_same(q.sym_size(1), k.sym_size(1))) &&
                     !(causal && mask && mask->defined());
  return static_cast<int64_t>(fused ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

Tensor dense_rows(const Tensor& t) { return t.stride(-1) == 1 || t.size(-1) == 1 ? t : t.contiguous(); }

// The additive mask broadcast to [B, H, L, S] with dense rows; undefined when there is none.
Tensor expanded_bias(const OptionalTensor& mask, const Tensor& q, const Tensor& k) {
  if (!mask || !mask->defined()) return {};
  Tensor bias = *mask;
  if (bias.scalar_type() == at::kBool)
    bias = at::where(bias, at::scalar_tensor(0, q.options()),
                     at::scalar_tensor(-std::numeric_limits<double>::infinity(), q.options()));
  bias = bias.to(q.scalar_type());
  if (bias.dim() == 0 || bias.size(-1) != k.size(2)) bias = bias.expand({q.size(2), k.size(2)}).contiguous();
  return dense_rows(bias).expand({q.size(0), q.size(1), q.size(2), k.size(2)});
}

ops::TensorView optional_view(const Tensor& t) { return t.defined() ? view(t) : ops::TensorView{}; }

// [B, H, rows, columns] stored as [B, rows, H, columns]: what follows attention merges the heads.
Tensor empty_heads(const Tensor& like, int64_t heads, int64_t rows, int64_t columns) {
  return at::empty({like.size(0), rows, heads, columns}, like.options()).transpose(1, 2);
}

ops::AttentionOptions options_of(const Tensor& q, std::optional<double> scale, bool causal, double dropout) {
  ops::AttentionOptions options;
  options.scale = scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
  options.causal = causal;
  options.dropout = dropout;
  return options;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, double dropout,
    bool causal, bool, std::optional<double> scale) {
  TORCH_CHECK(
      fused_can_run(query, key, value, mask && mask->requires_grad() ? OptionalTensor(mask->detach()) : mask, dropout),
      "_scaled_dot_product_fused_attention_overrideable: the kernel does not support these tensors");
  const c10::DeviceGuard guard(query.device());
  const Tensor q = dense_rows(query), k = dense_rows(key), v = dense_rows(value), bias = expanded_bias(mask, q, k);
  Tensor out = empty_heads(q, q.size(1), q.size(2), v.size(3));
  Tensor lse = at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
  ops::AttentionOptions options = options_of(q, scale, causal, dropout);
  if (dropout > 0) {
    const auto counters = ops::attention_counters(q.size(0), q.size(1), q.size(2), k.size(2));
    const auto [seed, offset] = runtime::reserve_philox(std::nullopt, q.device().index(), counters);
    options.state = {seed, offset};
  }
  ops::attention(queue_for(q), view(q), view(k), view(v), optional_view(bias), view(out), view(lse), options);
  if (dropout == 0) {  // nobody reads the seed
    static const Tensor none = [] {
      const c10::InferenceMode ordinary(false);
      return at::zeros({}, at::kLong);
    }();
    return {out, lse, Tensor(), Tensor(), q.size(2), k.size(2), none, none, Tensor()};
  }
  const auto on_cpu = at::TensorOptions(at::kLong);
  Tensor seed = at::empty({}, on_cpu).fill_(static_cast<int64_t>(options.state.seed));
  Tensor offset = at::empty({}, on_cpu).fill_(static_cast<int64_t>(options.state.offset));
  return {out, lse, Tensor(), Tensor(), q.size(2), k.size(2), seed, offset, Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& grad_out, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
    std::array<bool, 4> grad_input_mask, const Tensor& output, const Tensor& lse, const Tensor&, const Tensor&, int64_t,
    int64_t, double dropout, bool causal, const Tensor& philox_seed, const Tensor& philox_offset,
    std::optional<double> scale) {
  TORCH_CHECK(!(grad_input_mask[3] && mask.defined()),
              "scaled_dot_product_attention: the fused kernel gives no gradient of the mask");
  if (!grad_out.defined()) return {};
  const c10::DeviceGuard guard(query.device());
  const Tensor q = dense_rows(query), k = dense_rows(key), v = dense_rows(value), bias = expanded_bias(mask, q, k);
  const Tensor dout = dense_rows(grad_out), out = dense_rows(output);
  Tensor dq = empty_heads(q, q.size(1), q.size(2), q.size(3));
  Tensor dk = empty_heads(k, k.size(1), k.size(2), k.size(3)), dv = empty_heads(v, v.size(1), v.size(2), v.size(3));
  ops::AttentionOptions options = options_of(q, scale, causal, dropout);
  if (dropout > 0)
    options.state = {static_cast<uint64_t>(philox_seed.item<int64_t>()),
                     static_cast<uint64_t>(philox_offset.item<int64_t>())};
  ops::attention_backward(queue_for(q), view(q), view(k), view(v), optional_view(bias), view(out), view(dout),
                          view(lse.contiguous()), view(dq), view(dk), view(dv), options);
  return {dq, dk, dv, Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", &attention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", &attention_backward);
}

}  // namespace ocl::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &ocl::aten::choose)
}  // namespace at::native
