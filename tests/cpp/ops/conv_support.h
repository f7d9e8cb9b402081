// Direct convolutions (one group, stride and dilation 1 in depth) in float64, and running one algorithm of the list on
// guarded memory.
#pragma once

#include "support.h"

#include "ops/conv/conv.h"

#include <algorithm>
#include <string_view>

namespace ocl::testing {

using namespace ocl::ops;

struct ConvShape {
  int64_t batch, in_channels, out_channels, height, width, pad_h, pad_w;
};

inline ConvProblem problem_of(const ConvShape& s, int64_t kernel, int64_t stride = 1, DType type = DType::float32) {
  ConvProblem p;
  p.dtype = type;
  p.batch = s.batch;
  p.in_channels = s.in_channels;
  p.out_channels = s.out_channels;
  p.input = {1, s.height, s.width};
  p.kernel = {1, kernel, kernel};
  p.stride = {1, stride, stride};
  p.padding = {0, s.pad_h, s.pad_w};
  p.output = {1, (s.height + 2 * s.pad_h - kernel) / stride + 1, (s.width + 2 * s.pad_w - kernel) / stride + 1};
  return p;
}

inline std::string describe(const ConvAlgorithm& algorithm, const ConvProblem& p) {
  return std::string(algorithm.name) + " pass " + std::to_string(int(algorithm.pass)) + ": batch " +
         std::to_string(p.batch) + ", " + std::to_string(p.in_channels) + " -> " + std::to_string(p.out_channels) +
         ", " + std::to_string(p.input[0]) + "x" + std::to_string(p.input[1]) + "x" + std::to_string(p.input[2]) +
         ", kernel " + std::to_string(p.kernel[0]) + "x" + std::to_string(p.kernel[1]) + ", stride " +
         std::to_string(p.stride[1]) + ", padding " + std::to_string(p.padding[0]) + "," +
         std::to_string(p.padding[1]) + "," + std::to_string(p.padding[2]) +
         (p.channels_last ? ", channels last" : "") + (p.filters_last ? ", filters too" : "");
}

// Calls f(x index, w index, y index) for every product of the convolution.
template <class F>
void for_each_product(const ConvProblem& p, F&& f) {
  const auto [depth, height, width] = p.input;
  const auto [out_d, out_h, out_w] = p.output;
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t o = 0; o < p.out_channels; ++o)
      for (int64_t c = 0; c < p.in_channels; ++c)
        for (int64_t tap = 0; tap < p.taps(); ++tap) {
          const int64_t kd = tap / (p.kernel[1] * p.kernel[2]), kh = tap / p.kernel[2] % p.kernel[1],
                        kw = tap % p.kernel[2];
          for (int64_t row = 0; row < out_d * out_h; ++row) {
            const int64_t oz = row / out_h, oy = row % out_h, z = oz + kd - p.padding[0],
                          y = oy * p.stride[1] + kh * p.dilation[1] - p.padding[1];
            if (z < 0 || z >= depth || y < 0 || y >= height) continue;
            for (int64_t ox = 0; ox < out_w; ++ox) {
              const int64_t x = ox * p.stride[2] + kw * p.dilation[2] - p.padding[2];
              if (x < 0 || x >= width) continue;
              f((((n * p.in_channels + c) * depth + z) * height + y) * width + x,
                (o * p.in_channels + c) * p.taps() + tap,
                ((n * p.out_channels + o) * out_d * out_h + row) * out_w + ox);
            }
          }
        }
}

inline std::vector<double> reference(ConvPass pass, const ConvProblem& p, const std::vector<float>& x,
                                     const std::vector<float>& w, const std::vector<float>& y,
                                     const std::vector<float>& bias) {
  std::vector<double> result(pass == ConvPass::forward         ? p.y_numel()
                             : pass == ConvPass::backward_data ? p.x_numel()
                                                               : p.w_numel(),
                             0.0);
  if (pass == ConvPass::forward) {
    if (!bias.empty())
      for (size_t i = 0; i < result.size(); ++i) result[i] = bias[i / p.out_pixels() % p.out_channels];
    for_each_product(p, [&](int64_t ix, int64_t iw, int64_t iy) { result[iy] += double(x[ix]) * w[iw]; });
  } else if (pass == ConvPass::backward_data) {
    for_each_product(p, [&](int64_t ix, int64_t iw, int64_t iy) { result[ix] += double(y[iy]) * w[iw]; });
  } else {
    for_each_product(p, [&](int64_t ix, int64_t iw, int64_t iy) { result[iw] += double(x[ix]) * y[iy]; });
  }
  return result;
}

// An array whose neighbouring memory on both sides holds infinities.
class Guarded {
 public:
  explicit Guarded(const std::vector<float>& values) : size_(values.size()), memory_(surrounded(values)) {}
  float* data() const { return memory_.data() + margin; }
  std::vector<float> host() const {
    auto all = memory_.host();
    return {all.begin() + margin, all.begin() + margin + size_};
  }
  bool intact() const {
    auto all = memory_.host();
    for (size_t i = 0; i < margin; ++i)
      if (all[i] != INFINITY || all[margin + size_ + i] != INFINITY) return false;
    return true;
  }

 private:
  static constexpr size_t margin = 1024;
  static std::vector<float> surrounded(const std::vector<float>& values) {
    std::vector<float> all(values.size() + 2 * margin, INFINITY);
    std::copy(values.begin(), values.end(), all.begin() + margin);
    return all;
  }
  size_t size_;
  Array<float> memory_;
};

inline const char* refusal(const ConvAlgorithm& algorithm, const ConvProblem& p) {
  return algorithm.plan(p, PlanTarget(device())).refusal;
}

// Whether an algorithm refuses a problem because this device has less local memory than the 64 KiB of most CPU drivers
// (Rusticl's llvmpipe has 32 KiB). A test leaves such a problem out and names it when it skips.
inline bool too_large(const ConvAlgorithm& algorithm, const ConvProblem& p) {
  const char* reason = refusal(algorithm, p);
  if (device().capabilities().local_memory >= (64 << 10) || !reason) return false;
  const std::string_view text = reason;
  return text == "rows too long for local memory" || text == "too little local memory";
}

inline void run(const ConvAlgorithm& algorithm, const ConvProblem& p, const ConvOperands& operands,
                const PlanTarget& target = PlanTarget(device())) {
  const ConvPlan plan = algorithm.plan(p, target);
  ASSERT_EQ(plan.refusal, nullptr) << algorithm.name;
  Workspace workspace(queue(), plan.workspace);
  queue().fill(workspace.data(), "\xff\xff\xff\xff", 4,
               plan.workspace / 4 * 4);  // NaN: everything that is read must have been written
  plan.run(queue(), p, operands, workspace.data());
}

// [batch, rows, columns] -> [batch, columns, rows]
template <class T>
std::vector<T> transposed(const std::vector<T>& values, int64_t batch, int64_t rows, int64_t columns) {
  std::vector<T> result(values.size());
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) result[(n * columns + j) * rows + i] = values[(n * rows + i) * columns + j];
  return result;
}

// Values [batch, channels, pixels] in the memory order of the problem, and a result back from it.
inline std::vector<float> stored(const ConvProblem& p, const std::vector<float>& values, int64_t channels,
                                 int64_t pixels) {
  return p.channels_last ? transposed(values, p.batch, channels, pixels) : values;
}
template <class T>
std::vector<T> restored(const ConvProblem& p, ConvPass pass, const std::vector<T>& values) {
  if (!p.channels_last || pass == ConvPass::backward_weight) return values;
  return pass == ConvPass::forward ? transposed(values, p.batch, p.out_pixels(), p.out_channels)
                                   : transposed(values, p.batch, p.in_pixels(), p.in_channels);
}

// Largest error over rms of one pass, in the memory order of the problem (filters_last: for passes that read w); the
// result starts as NaN, every operand lies between infinities.
inline double error_of(const ConvAlgorithm& algorithm, const ConvProblem& p, bool with_bias = true,
                       const PlanTarget& target = PlanTarget(device())) {
  const auto x = random_values<float>(p.x_numel(), 1), w = random_values<float>(p.w_numel(), 2),
             y = random_values<float>(p.y_numel(), 3);
  const auto bias =
      with_bias && algorithm.pass == ConvPass::forward ? random_values<float>(p.out_channels, 4) : std::vector<float>();
  const auto poison = [&](const std::vector<float>& values, ConvPass computed_by) {
    return Guarded(algorithm.pass == computed_by ? std::vector<float>(values.size(), NAN) : values);
  };
  const auto filters = p.filters_last ? transposed(w, p.out_channels, p.in_channels, p.taps()) : w;
  Guarded dx = poison(stored(p, x, p.in_channels, p.in_pixels()), ConvPass::backward_data),
          dw = poison(filters, ConvPass::backward_weight),
          dy = poison(stored(p, y, p.out_channels, p.out_pixels()), ConvPass::forward), db(bias);
  run(algorithm, p, {dx.data(), dw.data(), dy.data(), bias.empty() ? nullptr : db.data()}, target);
  EXPECT_TRUE(dx.intact() && dw.intact() && dy.intact()) << algorithm.name;
  const std::vector<float> result = restored(p, algorithm.pass,
                                             (algorithm.pass == ConvPass::forward         ? dy
                                              : algorithm.pass == ConvPass::backward_data ? dx
                                                                                          : dw)
                                                 .host());
  return relative_error(result, reference(algorithm.pass, p, x, w, y, bias));
}

// bfloat16 numbers: `values` is rounded in place and returned as stored.
inline std::vector<uint16_t> round_to_bfloat16(std::vector<float>& values) {
  std::vector<uint16_t> stored;
  for (float& value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
    std::memcpy(&value, &bits, 4);
    stored.push_back(static_cast<uint16_t>(bits >> 16));
  }
  return stored;
}

// Largest of |error| / (2^-8 |expected| + slack * rms) with bfloat16 operands: at most 1 when only the result was
// rounded.
inline double bfloat16_error_of(const ConvAlgorithm& algorithm, const ConvProblem& p, double slack) {
  auto x = random_values<float>(p.x_numel(), 1), w = random_values<float>(p.w_numel(), 2),
       y = random_values<float>(p.y_numel(), 3),
       bias = random_values<float>(algorithm.pass == ConvPass::forward ? p.out_channels : 0, 4);
  for (auto* values : {&x, &w, &y, &bias}) round_to_bfloat16(*values);
  auto x_stored = stored(p, x, p.in_channels, p.in_pixels()), y_stored = stored(p, y, p.out_channels, p.out_pixels());
  Array<uint16_t> dx(round_to_bfloat16(x_stored)), dw(round_to_bfloat16(w)), dy(round_to_bfloat16(y_stored)),
      db(round_to_bfloat16(bias));
  run(algorithm, p, {dx.data(), dw.data(), dy.data(), bias.empty() ? nullptr : db.data()});
  const auto actual = restored(p, algorithm.pass,
                               (algorithm.pass == ConvPass::forward         ? dy
                                : algorithm.pass == ConvPass::backward_data ? dx
                                                                            : dw)
                                   .host());
  const auto expected = reference(algorithm.pass, p, x, w, y, bias);
  double square = 0, worst = 0;
  for (double e : expected) square += e * e;
  const double rms = std::sqrt(square / expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const uint32_t bits = uint32_t{actual[i]} << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    const double error = std::abs(value - expected[i]) / (std::abs(expected[i]) / 256 + slack * rms);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace ocl::testing
