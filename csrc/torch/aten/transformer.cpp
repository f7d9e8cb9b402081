// The inference fast path of nn.MultiheadAttention and nn.TransformerEncoder, made of operators that have kernels.
#include "torch/aten/common.h"

#include <ATen/ops/_nested_from_padded_and_nested_example.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>

namespace ocl::aten {

namespace {

// The kinds of masks that nn.MultiheadAttention passes; true (or, in a float mask, anything but 0) hides a key.
enum MaskType : int64_t { source = 0, padding = 1, merged = 2 };

// (batch or 1, heads or 1, queries or 1, keys), true where a key is seen.
std::optional<at::Tensor> visible(const std::optional<at::Tensor>& mask, std::optional<int64_t> type) {
  if (!mask) return std::nullopt;
  TORCH_CHECK(type.has_value(), "Mask Type should be defined");
  at::Tensor seen = mask->to(at::kBool).logical_not();
  switch (*type) {
    case source: return seen.view({1, 1, seen.size(-2), seen.size(-1)});
    case padding: return seen.view({seen.size(0), 1, 1, seen.size(1)});
    case merged: return seen;
    default:
      TORCH_CHECK(false, "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask), got ",
                  *type);
  }
}

at::Tensor split_heads(const at::Tensor& x, int64_t heads) {
  return x.unflatten(-1, {heads, x.size(-1) / heads}).transpose(1, 2);
}

// query, key, value: (batch, sequence, embedding). Returns the projected attention and, when wanted, the weights.
std::tuple<at::Tensor, at::Tensor> native_multi_head_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t embed_dim, int64_t heads,
    const at::Tensor& qkv_weight, const at::Tensor& qkv_bias, const at::Tensor& proj_weight,
    const at::Tensor& proj_bias, const std::optional<at::Tensor>& mask, bool need_weights, bool average_weights,
    std::optional<int64_t> mask_type) {
  TORCH_CHECK(query.dim() == 3, "expected 3-D `query`, got ", query.dim(), "-D tensor");
  TORCH_CHECK(query.size(2) == embed_dim, "passed-in embed_dim ", embed_dim, " didn't match last dim of query ",
              query.size(2));
  TORCH_CHECK(key.dim() == 3 && value.dim() == 3, "expected 3-D `key` and `value`");
  TORCH_CHECK(qkv_weight.dim() == 2 && qkv_weight.size(0) == 3 * embed_dim, "expected `qkv_weight` of ", 3 * embed_dim,
              " rows");
  TORCH_CHECK(embed_dim % heads == 0, "`embed_dim` must divide evenly by `num_heads`");
  std::vector<at::Tensor> parts;
  if (key.is_same(query) && value.is_same(query)) {
    parts = at::linear(query, qkv_weight, qkv_bias).chunk(3, -1);
  } else {
    const auto weights = qkv_weight.chunk(3), biases = qkv_bias.chunk(3);
    parts = {at::linear(query, weights[0], biases[0]), at::linear(key, weights[1], biases[1]),
             at::linear(value, weights[2], biases[2])};
  }
  const at::Tensor q = split_heads(parts[0], heads), k = split_heads(parts[1], heads), v = split_heads(parts[2], heads);
  const auto seen = visible(mask, mask_type);
  at::Tensor attended, weights;
  if (need_weights) {
    const int64_t head_size = embed_dim / heads;
    at::Tensor scores = at::matmul(q, k.transpose(-2, -1)).mul(1 / std::sqrt(static_cast<double>(head_size)));
    if (seen) scores.masked_fill_(seen->logical_not(), -INFINITY);
    weights = at::_safe_softmax(scores, -1);
    attended = at::matmul(weights, v);
    if (average_weights) weights = weights.mean(1);
  } else {
    attended = at::scaled_dot_product_attention(q, k, v, seen);
  }
  return {at::linear(attended.transpose(1, 2).flatten(2), proj_weight, proj_bias), weights};
}

at::Tensor transformer_encoder_layer(const at::Tensor& source, int64_t embed_dim, int64_t heads,
                                     const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                                     const at::Tensor& proj_weight, const at::Tensor& proj_bias, bool use_gelu,
                                     bool norm_first, double eps, const at::Tensor& norm1_weight,
                                     const at::Tensor& norm1_bias, const at::Tensor& norm2_weight,
                                     const at::Tensor& norm2_bias, const at::Tensor& ffn1_weight,
                                     const at::Tensor& ffn1_bias, const at::Tensor& ffn2_weight,
                                     const at::Tensor& ffn2_bias, const std::optional<at::Tensor>& mask,
                                     std::optional<int64_t> mask_type) {
  if (source.numel() == 0) return source;
  auto norm1 = [&](const at::Tensor& x) { return at::layer_norm(x, {embed_dim}, norm1_weight, norm1_bias, eps); };
  auto norm2 = [&](const at::Tensor& x) { return at::layer_norm(x, {embed_dim}, norm2_weight, norm2_bias, eps); };
  auto attention = [&](const at::Tensor& x) {
    return std::get<0>(native_multi_head_attention(x, x, x, embed_dim, heads, qkv_weight, qkv_bias, proj_weight,
                                                   proj_bias, mask, false, true, mask_type));
  };
  auto feed_forward = [&](const at::Tensor& x) {
    const at::Tensor hidden = at::linear(x, ffn1_weight, ffn1_bias);
    return at::linear(use_gelu ? at::gelu(hidden) : at::relu(hidden), ffn2_weight, ffn2_bias);
  };
  if (norm_first) {
    const at::Tensor x = source.add(attention(norm1(source)));
    return x.add(feed_forward(norm2(x)));
  }
  const at::Tensor x = norm1(source.add(attention(source)));
  return norm2(x.add(feed_forward(x)));
}

// Strided nested tensors have no `ocl` kernels: "not left aligned" keeps nn.TransformerEncoder on padded ones.
bool nested_tensor_from_mask_left_aligned(const at::Tensor&, const at::Tensor&) { return false; }

}  // namespace

// Of a nested tensor, which nn.TransformerEncoder makes of a padded one: padded again, with a mask.
at::Tensor nested_encoder_layer(const at::Tensor& source, int64_t embed_dim, int64_t heads,
                                const at::Tensor& qkv_weight, const at::Tensor& qkv_bias, const at::Tensor& proj_weight,
                                const at::Tensor& proj_bias, bool use_gelu, bool norm_first, double eps,
                                const at::Tensor& norm1_weight, const at::Tensor& norm1_bias,
                                const at::Tensor& norm2_weight, const at::Tensor& norm2_bias,
                                const at::Tensor& ffn1_weight, const at::Tensor& ffn1_bias,
                                const at::Tensor& ffn2_weight, const at::Tensor& ffn2_bias,
                                const std::optional<at::Tensor>& mask, std::optional<int64_t>) {
  TORCH_CHECK(!mask, "_transformer_encoder_layer_fwd: a nested tensor takes no mask");
  const at::Tensor padded = source.to_padded_tensor(0);
  const at::Tensor lengths = source._nested_tensor_size().select(1, 0).unsqueeze(1);
  const at::Tensor hidden = at::arange(padded.size(1), lengths.options()).unsqueeze(0).ge(lengths).to(source.device());
  const at::Tensor result = transformer_encoder_layer(
      padded, embed_dim, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm1_weight,
      norm1_bias, norm2_weight, norm2_bias, ffn1_weight, ffn1_bias, ffn2_weight, ffn2_bias, hidden, padding);
  return at::_nested_from_padded_and_nested_example(result, source);
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) { m.impl("_transformer_encoder_layer_fwd", nested_encoder_layer); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_native_multi_head_attention", native_multi_head_attention);
  m.impl("_transformer_encoder_layer_fwd", transformer_encoder_layer);
  m.impl("_nested_tensor_from_mask_left_aligned", nested_tensor_from_mask_left_aligned);
}

}  // namespace ocl::aten
