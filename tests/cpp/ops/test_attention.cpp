#include "support.h"

#include "ops/attention/attention.h"

#include <algorithm>
#include <bit>

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
    {1, 1, 1, 1, 1, 1, 1, false, false},
    {2, 3, 3, 67, 131, 37, 41, false, false},
    {1, 2, 2, 130, 130, 64, 64, true, false, 0, true},
    {2, 4, 2, 33, 97, 16, 80, false, true},
    {1, 6, 2, 71, 71, 100, 24, true, true, 0.3},
    {1, 2, 1, 65, 200, 48, 48, false, false, 0.5, true},
    {1, 1, 1, 9, 70, 128, 128, true, true, 0, true},
};
// Features in whole chunks of 16 bytes, which the kernels on tensor cores that store no scores want.
const std::vector<Case> chunk_cases{
    {1, 1, 1, 1, 1, 8, 8, false, false},
    {1, 2, 2, 17, 65, 40, 40, true, false},
    {2, 2, 2, 130, 130, 64, 64, true, false, 0, true},
    {1, 2, 1, 65, 130, 72, 72, false, true},
    {1, 4, 2, 130, 17, 80, 64, true, false, 0.3},
    {1, 2, 2, 65, 200, 96, 96, false, false, 0.5, true},
    {1, 3, 1, 130, 65, 128, 128, true, true, 0.2},
    {1, 1, 1, 64, 128, 128, 128, true, false},
    {1, 2, 1, 1, 129, 64, 24, false, true},
    {1, 1, 1, 300, 257, 64, 64, true, false},
};

// Elements of a dtype as bits, and back; float32, and the half types rounded to nearest.
float round_to(DType type, float x) {
  if (type == DType::float32) return x;
  uint32_t bits = std::bit_cast<uint32_t>(x);
  if (std::isinf(x)) return x;
  const int dropped = type == DType::bfloat16 ? 16 : 13;
  bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
  x = std::bit_cast<float>(bits >> dropped << dropped);
  return type == DType::float16 && std::abs(x) < 0x1p-14f ? 0 : x;  // no subnormal numbers
}
uint32_t bits_of(DType type, float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (type == DType::float32) return bits;
  if (type == DType::bfloat16) return bits >> 16;
  const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  return sign | (std::isnan(x) ? 0x7e00 : std::isinf(x) ? 0x7c00 : size == 0 ? 0 : (size >> 13) - (112 << 10));
}
float value_of(DType type, uint32_t bits) {
  if (type == DType::float32) return std::bit_cast<float>(bits);
  if (type == DType::bfloat16) return std::bit_cast<float>(bits << 16);
  const int exponent = int(bits >> 10 & 31), fraction = int(bits & 1023);
  float size = std::ldexp(float(exponent == 0 ? fraction : 1024 + fraction), std::max(exponent, 1) - 25);
  if (exponent == 31) size = fraction ? NAN : INFINITY;
  return bits & 0x8000 ? -size : size;
}
std::vector<uint8_t> bytes_of(DType type, const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * size_of(type));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = bits_of(type, round_to(type, values[i]));
    std::memcpy(&bytes[i * size_of(type)], &bits, size_of(type));
  }
  return bytes;
}

// A random tensor [B, H, rows, columns] in either memory order.
struct Operand {
  DType type;
  int64_t sizes[4], strides[4];
  Array<uint8_t> array;
  Operand(DType type, const Case& c, int64_t heads, int64_t rows, int64_t columns, unsigned seed)
      : type(type),
        sizes{c.batch, heads, rows, columns},
        array(bytes_of(type, random_values<float>(c.batch * heads * rows * columns, seed, -1.5, 1.5))) {
    strides[3] = 1;
    strides[2] = c.transposed ? heads * columns : columns;
    strides[1] = c.transposed ? columns : rows * columns;
    strides[0] = heads * rows * columns;
  }
  TensorView view() const { return TensorView::strided(array.data(), type, sizes, strides); }
  std::vector<float> host() const {
    const auto bytes = array.host();
    std::vector<float> values(bytes.size() / size_of(type));
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, &bytes[i * size_of(type)], size_of(type));
      values[i] = value_of(type, bits);
    }
    return values;
  }
  int64_t at(int64_t b, int64_t h, int64_t r, int64_t e) const {
    return b * strides[0] + h * strides[1] + r * strides[2] + e;
  }
};

// 0 or 1 / (1 - p) for element (row, key) of head bh: the contract of attention/attention.clh.
double keep(const Case& c, Philox state, int64_t bh, int64_t row, int64_t key) {
  if (c.dropout == 0) return 1;
  const uint64_t counter =
      state.offset + (uint64_t(bh * c.length + row) * ((c.keys + 63) / 64) + key / 64) * 16 + key % 16;
  const auto w = philox4x32({uint32_t(counter), uint32_t(counter >> 32), 0, 0},
                            {uint32_t(state.seed), uint32_t(state.seed >> 32)});
  return w[key % 64 / 16] < std::ldexp(1 - c.dropout, 32) ? 1 / (1 - c.dropout) : 0;
}

// Tolerances of out and of the gradients: of one plus the expected size.
void check_case(const Case& c, DType type = DType::float32, double tolerance = 2e-5, double gradient_tolerance = 1e-4) {
  Operand q(type, c, c.heads, c.length, c.width, 1), k(type, c, c.key_heads, c.keys, c.width, 2),
      v(type, c, c.key_heads, c.keys, c.value_width, 3);
  Operand out(type, c, c.heads, c.length, c.value_width, 4), dout(type, c, c.heads, c.length, c.value_width, 5);
  Operand dq(type, c, c.heads, c.length, c.width, 9), dk(type, c, c.key_heads, c.keys, c.width, 6),
      dv(type, c, c.key_heads, c.keys, c.value_width, 7);
  // bias [1, Hq, L, S] broadcast over the batch, with minus infinity here and there and one row without any key
  auto values = random_values<float>(c.heads * c.length * c.keys, 8);
  for (size_t i = 0; i < values.size(); i += 7) values[i] = -INFINITY;
  for (int64_t j = 0; j < c.keys; ++j) values[(c.length / 2) * c.keys + j] = -INFINITY;
  for (float& x : values) x = round_to(type, x);
  Array<uint8_t> bias(bytes_of(type, values));
  TensorView mask;
  if (c.biased) {
    const int64_t sizes[4] = {c.batch, c.heads, c.length, c.keys}, strides[4] = {0, c.length * c.keys, c.keys, 1};
    mask = TensorView::strided(bias.data(), type, sizes, strides);
  }
  Array<float> lse(c.batch * c.heads * c.length);
  const TensorView lse_view = TensorView::contiguous(lse.data(), DType::float32, {c.batch, c.heads, c.length});
  const AttentionOptions options{0.3, c.causal, c.dropout, {77, 1000}};
  attention(queue(), q.view(), k.view(), v.view(), mask, out.view(), lse_view, options);
  attention_backward(queue(), q.view(), k.view(), v.view(), mask, out.view(), dout.view(), lse_view, dq.view(),
                     dk.view(), dv.view(), options);

  const auto hq = q.host(), hk = k.host(), hv = v.host(), hout = out.host(), hd = dout.host(), hdq = dq.host(),
             hdk = dk.host(), hdv = dv.host();
  const auto hlse = lse.host();
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
        const double row_lse = total == 0 ? INFINITY : largest + std::log(total),
                     actual_lse = hlse[(b * c.heads + h) * c.length + i];
        ASSERT_TRUE(row_lse == actual_lse || std::abs(row_lse - actual_lse) < 1e-4)
            << b << h << i << " " << actual_lse << " " << row_lse;
        for (double& x : p) x = total == 0 ? 0 : x / total;
        for (int64_t f = 0; f < c.value_width; ++f) {
          double sum = 0;
          for (int64_t j = 0; j < c.keys; ++j)
            sum += p[j] * keep(c, options.state, b * c.heads + h, i, j) * hv[v.at(b, g, j, f)];
          ASSERT_NEAR(hout[out.at(b, h, i, f)], sum, tolerance * (1 + std::abs(sum))) << b << h << i << " " << f;
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
          ASSERT_NEAR(hdq[dq.at(b, h, i, e)], sum, gradient_tolerance * (1 + std::abs(sum))) << b << h << i << " " << e;
        }
      }
  for (size_t i = 0; i < hdk.size(); ++i) ASSERT_NEAR(hdk[i], edk[i], gradient_tolerance * (1 + std::abs(edk[i]))) << i;
  for (size_t i = 0; i < hdv.size(); ++i) ASSERT_NEAR(hdv[i], edv[i], gradient_tolerance * (1 + std::abs(edv[i]))) << i;
}

}  // namespace

TEST(Attention, ForwardAndBackward) {
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    check_case(cases[i]);
  }
}

TEST(Attention, WholeChunks) {
  for (const DType type : {DType::float32, DType::float16, DType::bfloat16})
    for (size_t i = 0; i < chunk_cases.size(); ++i) {
      SCOPED_TRACE(name_of(type) + std::string(" ") + std::to_string(i));
      if (type == DType::float32) check_case(chunk_cases[i]);
      if (type == DType::float16) check_case(chunk_cases[i], type, 1e-3, 6e-3);
      if (type == DType::bfloat16) check_case(chunk_cases[i], type, 8e-3, 4e-2);
    }
}

TEST(Attention, NaNStaysInItsRow) {
  auto values = random_values<float>(70 * 16, 1);
  values[3 * 16 + 5] = NAN;
  Array<float> q(values), k(random_values<float>(70 * 16, 2)), v(random_values<float>(70 * 16, 3)), out(70 * 16),
      lse(70);
  const auto view = [](const Array<float>& a) {
    return TensorView::contiguous(a.data(), DType::float32, {1, 1, 70, 16});
  };
  attention(queue(), view(q), view(k), view(v), {}, view(out),
            TensorView::contiguous(lse.data(), DType::float32, {1, 1, 70}), {});
  const auto host = out.host();
  for (int i = 0; i < 70 * 16; ++i) ASSERT_EQ(std::isnan(host[i]), i / 16 == 3) << i;
}

TEST(Attention, NotFiniteStaysInItsRow) {
  const Case c{1, 1, 1, 70, 70, 16, 16, false, false};
  for (const float odd : {NAN, INFINITY}) {
    const DType type = DType::bfloat16;
    Operand q(type, c, 1, 70, 16, 1), k(type, c, 1, 70, 16, 2), v(type, c, 1, 70, 16, 3), out(type, c, 1, 70, 16, 4);
    const auto bits = static_cast<uint16_t>(bits_of(type, odd));
    queue().write(reinterpret_cast<uint16_t*>(q.array.data()) + 3 * 16 + 5, &bits, sizeof bits);
    Array<float> lse(70);
    attention(queue(), q.view(), k.view(), v.view(), {}, out.view(),
              TensorView::contiguous(lse.data(), DType::float32, {1, 1, 70}), {});
    const auto host = out.host();
    for (int i = 0; i < 70 * 16; ++i) ASSERT_EQ(std::isnan(host[i]), i / 16 == 3) << odd << " " << i;
  }
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
  const auto view = [](const Array<uint16_t>& a) {
    return TensorView::contiguous(a.data(), DType::bfloat16, {1, 1, 70, 24});
  };
  attention(queue(), view(q), view(q), view(v), {}, view(out),
            TensorView::contiguous(lse.data(), DType::float32, {1, 1, 70}), {1, true, 0, {}});
  EXPECT_EQ(out.host(), half(std::vector<float>(70 * 24, 2.f)));
}

TEST(Attention, Errors) {
  EXPECT_NE(attention_refuses(device(), DType::float64, 64, 64), nullptr);
  EXPECT_NE(attention_refuses(device(), DType::float32, 300, 64), nullptr);
  EXPECT_EQ(attention_refuses(device(), DType::float32, 64, 64), nullptr);
}
