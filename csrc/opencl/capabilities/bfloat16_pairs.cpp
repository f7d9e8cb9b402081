#include "opencl/capabilities/bfloat16_pairs.h"

#include "base/environment.h"
#include "opencl/capabilities/probes.h"
#include "opencl/capabilities/selftest.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ocl {
namespace {

// A device that is a CPU is this processor: running an instruction that it lacks would end the process.
bool processor_has_instruction() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// The upper halves, two elements in one word: `low` is the first of the pair.
uint32_t pair_of(float low, float high) {
  return std::bit_cast<uint32_t>(low) >> 16 | (std::bit_cast<uint32_t>(high) & 0xffff0000u);
}

// Mirrors repeat_products in kernels_cl/selftest/bfloat16.cpu.cl. Nothing when it does not run.
std::optional<double> seconds_of(Device& device, bool pairs, int32_t rounds) {
  float data[48] = {};
  std::fill_n(data, 16, std::bit_cast<float>(pair_of(1, 1)));
  data[16] = std::bit_cast<float>(rounds);
  data[17] = std::bit_cast<float>(int32_t{pairs});
  return run_selftest(device, "selftest/bfloat16.cpu.cl", "repeat_products", Defines(), Range(1), data, sizeof data);
}

}  // namespace

// Mirrors multiply_pairs in kernels_cl/selftest/bfloat16.cpu.cl: words [0, 16) a, [16, 32) b, [32, 64) two vectors of
// sums, [64, 72) rounded sums.
bool multiplies_pairs(Device& device) {
  constexpr int lanes = 16, words = 72;
  union {
    uint32_t word[words];
    float number[words];
  } data{};
  float expected[2][lanes];
  for (int i = 0; i < lanes; ++i) {
    const float a[] = {1.0f + static_cast<float>(i), -2.0f * static_cast<float>(i)},
                b[] = {3.0f, 0.5f + static_cast<float>(i % 5)};
    data.word[i] = pair_of(a[0], a[1]);
    data.word[16 + i] = pair_of(b[0], b[1]);
    for (int v = 0; v < 2; ++v) {
      data.number[32 + 16 * v + i] = static_cast<float>(100 * v + i);
      const float* second = v ? a : b;
      expected[v][i] =
          data.number[32 + 16 * v + i] + 2 * (a[0] * second[0] + a[1] * second[1]);  // whole numbers and halves: exact
    }
  }
  data.number[32] = expected[0][0] = std::nanf("");
  if (!run_selftest(device, "selftest/bfloat16.cpu.cl", "multiply_pairs", Defines(), Range(1), &data, sizeof data))
    return false;
  bool right = true;
  for (int v = 0; v < 2; ++v)
    for (int i = 0; i < lanes; ++i) {
      const float sum = data.number[32 + 16 * v + i], wanted = expected[v][i];
      right = right && (sum == wanted || (std::isnan(sum) && std::isnan(wanted)));
    }
  // The first vector rounded to bfloat16, halves to even; a NaN stays one.
  for (int i = 0; i < lanes; ++i) {
    const uint16_t rounded = static_cast<uint16_t>(data.word[64 + i / 2] >> (i % 2 * 16));
    const auto bits = std::bit_cast<uint32_t>(expected[0][i]);
    const uint16_t wanted = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    right = right && (std::isnan(expected[0][i]) ? (rounded & 0x7fff) > 0x7f80 : rounded == wanted);
  }
  return right;
}

double bfloat16_pairs_gain(Device& device, int32_t rounds) {
  double pairs = HUGE_VAL, floats = HUGE_VAL;
  for (int i = 0; i < 4; ++i) {  // in turns; the first of each also wakes the processor's wide units
    pairs = std::min(pairs, seconds_of(device, true, rounds).value_or(HUGE_VAL));
    floats = std::min(floats, seconds_of(device, false, rounds).value_or(HUGE_VAL));
  }
  return 2 * floats / pairs;
}

// Empty where the self-test decides.
static std::string setting() { return environment::word("TORCH_OCL_BFLOAT16_PAIRS", ""); }

bool bfloat16_pairs_emulated() {
  static const bool emulated = setting() == "emulate";
  return emulated;
}

bool may_have_bfloat16_pairs(const Device& device) {
  return setting() != "0" && (bfloat16_pairs_emulated() || processor_has_instruction()) &&
         device.capabilities().is_cpu && device.cpu_style();
}

bool has_bfloat16_pairs(const Device& device) { return device.probes().passed(Probe::bfloat16_pairs); }

bool prefers_bfloat16_pairs(const Device& device) {
  static auto& answers = *new MeasuredOnce<bool>;
  static const bool always = bfloat16_pairs_emulated() || setting() == "1";
  constexpr int32_t rounds = 1 << 15;  // a few tenths of a millisecond
  constexpr double worthwhile = 1.3;   // packing pairs costs more than packing numbers
  return has_bfloat16_pairs(device) &&
         (always || answers.get(device, [](Device& d) { return bfloat16_pairs_gain(d, rounds) > worthwhile; }));
}

}  // namespace ocl
