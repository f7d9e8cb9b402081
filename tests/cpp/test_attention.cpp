#include "support.h"

#include "ops/attention/attention.h"

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

struct Case {
  int64_t batch, heads, key_heads, length, keys, width, value_width;
  bool causal, biased;
  double dropout = 0;
  bool transposed = false;  // memory order [B, L, H, E] instead of [B, H, L, E]
};

const std::vector<Case> cases{
    {1, 1, 1, 1, 1, 1, 1, false, false},          {2, 3, 3, 67, 131, 37, 41, false, false},     {1, 2, 2, 130, 130, 64, 64, true, false, 0, true},
    {2, 4, 2, 33, 97, 16, 80, false, true},       {1, 6, 2, 71, 71, 100, 24, true, true, 0.3},  {1, 2, 1, 65, 200, 48, 48, false, false, 0.5, true},
    {1, 1, 1, 9, 70, 128, 128, true, true, 0, true},
};

// A random tensor [B, H, rows, columns] in either memory order.
struct Operand {
  int64_t sizes[4], strides[4];
  Array<float> array;
  Operand(const Case& c, int64_t heads, int64_t rows, int64_t columns, unsigned seed)
      : sizes{c.batch, heads, rows, columns}, array(random_values<float>(c.batch * heads * rows * columns, seed, -1.5, 1.5)) {
    strides[3] = 1;
    strides[2] = c.transposed ? heads * columns : columns;
    strides[1] = c.transposed ? columns : rows * columns;
    strides[0] = heads * rows * columns;
  }
  TensorView view() const { return TensorView::strided(array.data(), DType::float32, sizes, strides); }
  int64_t at(int64_t b, int64_t h, int64_t r, int64_t e) const { return b * strides[0] + h * strides[1] + r * strides[2] + e; }
};

// 0 or 1 / (1 - p) for element (row, key) of head bh: the contract of common/attention.clh.
double keep(const Case& c, Philox state, int64_t bh, int64_t row, int64_t key) {
  if (c.dropout == 0) return 1;
  const uint64_t counter = state.offset + (uint64_t(bh * c.length + row) * ((c.keys + 63) / 64) + key / 64) * 16 + key % 16;
  const auto w = philox4x32({uint32_t(counter), uint32_t(counter >> 32), 0, 0}, {uint32_t(state.seed), uint32_t(state.seed >> 32)});
  return w[key % 64 / 16] < std::ldexp(1 - c.dropout, 32) ? 1 / (1 - c.dropout) : 0;
}

void check_case(const Case& c) {
  Operand q(c, c.heads, c.length, c.width, 1), k(c, c.key_heads, c.keys, c.width, 2), v(c, c.key_heads, c.keys, c.value_width, 3);
  Operand out(c, c.heads, c.length, c.value_width, 4), dout(c, c.heads, c.length, c.value_width, 5);
  Operand dk(c, c.key_heads, c.keys, c.width, 6), dv(c, c.key_heads, c.keys, c.value_width, 7);
  // bias [1, Hq, L, S] broadcast over the batch, with minus infinity here and there and one row without any key
  auto values = random_values<float>(c.heads * c.length * c.keys, 8);
  for (size_t i = 0; i < values.size(); i += 7) values[i] = -INFINITY;
  for (int64_t j = 0; j < c.keys; ++j) values[(c.length / 2) * c.keys + j] = -INFINITY;
  Array<float> bias(values);
  TensorView mask;
  if (c.biased) {
    const int64_t sizes[4] = {c.batch, c.heads, c.length, c.keys}, strides[4] = {0, c.length * c.keys, c.keys, 1};
    mask = TensorView::strided(bias.data(), DType::float32, sizes, strides);
  }
  const int64_t pitch = attention_query_pitch(c.width);
  Array<float> lse(c.batch * c.heads * c.length), dq(c.batch * c.heads * c.length * pitch);
  const TensorView lse_view = TensorView::contiguous(lse.data(), DType::float32, {c.batch, c.heads, c.length});
  const TensorView dq_view = TensorView::contiguous(dq.data(), DType::float32, {c.batch, c.heads, c.length, pitch});
  const AttentionOptions options{0.3, c.causal, c.dropout, {77, 1000}};
  attention(queue(), q.view(), k.view(), v.view(), mask, out.view(), lse_view, options);
  attention_backward(queue(), q.view(), k.view(), v.view(), mask, out.view(), dout.view(), lse_view, dq_view, dk.view(), dv.view(), options);

  const auto hq = q.array.host(), hk = k.array.host(), hv = v.array.host(), hout = out.array.host(), hd = dout.array.host(), hdq = dq.host();
  const auto hdk = dk.array.host(), hdv = dv.array.host();
  std::vector<double> edk(hdk.size(), 0), edv(hdv.size(), 0);
  const int64_t group = c.heads / c.key_heads;
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.length; ++i) {
        const int64_t g = h / group;
        std::vector<double> p(c.keys), dp(c.keys);
        double largest = -INFINITY, total = 0, delta = 0;
        for (int64_t j = 0; j < c.keys; ++j) {
          p[j] = c.biased ? values[(h * c.length + i) * c.keys + j] : 0;
          for (int64_t e = 0; e < c.width; ++e) p[j] += 0.3 * hq[q.at(b, h, i, e)] * hk[k.at(b, g, j, e)];
          if (c.causal && j > i) p[j] = -INFINITY;
          largest = std::max(largest, p[j]);
        }
        for (double& x : p) total += x = x == -INFINITY ? 0 : std::exp(x - largest);
        for (double& x : p) x = total == 0 ? 0 : x / total;
        for (int64_t f = 0; f < c.value_width; ++f) {
          double sum = 0;
          for (int64_t j = 0; j < c.keys; ++j) sum += p[j] * keep(c, options.state, b * c.heads + h, i, j) * hv[v.at(b, g, j, f)];
          ASSERT_NEAR(hout[out.at(b, h, i, f)], sum, 2e-5) << b << h << i << " " << f;
          delta += sum * hd[dout.at(b, h, i, f)];
        }
        for (int64_t j = 0; j < c.keys; ++j) {
          const double kept = keep(c, options.state, b * c.heads + h, i, j);
          for (int64_t f = 0; f < c.value_width; ++f) {
            dp[j] += hd[dout.at(b, h, i, f)] * hv[v.at(b, g, j, f)] * kept;
            edv[dv.at(b, g, j, f)] += p[j] * kept * hd[dout.at(b, h, i, f)];
          }
          dp[j] = p[j] * (dp[j] - delta) * 0.3;
          for (int64_t e = 0; e < c.width; ++e) edk[dk.at(b, g, j, e)] += dp[j] * hq[q.at(b, h, i, e)];
        }
        for (int64_t e = 0; e < c.width; ++e) {
          double sum = 0;
          for (int64_t j = 0; j < c.keys; ++j) sum += dp[j] * hk[k.at(b, g, j, e)];
          ASSERT_NEAR(hdq[((b * c.heads + h) * c.length + i) * pitch + e], sum, 1e-4) << b << h << i << " " << e;
        }
      }
  for (size_t i = 0; i < hdk.size(); ++i) ASSERT_NEAR(hdk[i], edk[i], 1e-4) << i;
  for (size_t i = 0; i < hdv.size(); ++i) ASSERT_NEAR(hdv[i], edv[i], 1e-4) << i;
}

}  // namespace

TEST(Attention, ForwardAndBackward) {
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    check_case(cases[i]);
  }
}

TEST(Attention, NaNStaysInItsRow) {
  auto values = random_values<float>(70 * 16, 1);
  values[3 * 16 + 5] = NAN;
  Array<float> q(values), k(random_values<float>(70 * 16, 2)), v(random_values<float>(70 * 16, 3)), out(70 * 16), lse(70);
  const auto view = [](const Array<float>& a) { return TensorView::contiguous(a.data(), DType::float32, {1, 1, 70, 16}); };
  attention(queue(), view(q), view(k), view(v), {}, view(out), TensorView::contiguous(lse.data(), DType::float32, {1, 1, 70}), {});
  const auto host = out.host();
  for (int i = 0; i < 70 * 16; ++i) ASSERT_EQ(std::isnan(host[i]), i / 16 == 3) << i;
}

TEST(Attention, BFloat16) {
  const auto half = [](const std::vector<float>& x) {
    std::vector<uint16_t> y(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, &x[i], 4);
      y[i] = uint16_t(bits >> 16);
    }
    return y;
  };
  Array<uint16_t> q(half(random_values<float>(70 * 24, 1))), v(half(std::vector<float>(70 * 24, 2.f))), out(70 * 24);
  Array<float> lse(70);
  const auto view = [](const Array<uint16_t>& a) { return TensorView::contiguous(a.data(), DType::bfloat16, {1, 1, 70, 24}); };
  attention(queue(), view(q), view(q), view(v), {}, view(out), TensorView::contiguous(lse.data(), DType::float32, {1, 1, 70}), {1, true, 0, {}});
  EXPECT_EQ(out.host(), half(std::vector<float>(70 * 24, 2.f)));
}

TEST(Attention, Errors) {
  EXPECT_NE(attention_refuses(device(), DType::float64, 64, 64), nullptr);
  EXPECT_NE(attention_refuses(device(), DType::float32, 300, 64), nullptr);
  EXPECT_EQ(attention_refuses(device(), DType::float32, 64, 64), nullptr);
}
