// Helpers of the GoogleTest suite: device arrays, comparison with a float64 reference in which NaN never passes.
#pragma once

#include "ops/core/context.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace ocl::testing {

inline Device& device() { return Device::get(0); }
inline Queue& queue() { return device().default_queue(); }

// On a device whose driver is not known to build everything (Device::guarded), a test of what it does not build is
// skipped, and the reason names the program.
inline void run_or_skip(void (*body)()) {
  try {
    body();
  } catch (const BuildError& error) {
    if (!device().guarded()) throw;
    GTEST_SKIP() << error.what();
  }
}

#undef TEST
#define TEST(suite, name)                                                       \
  static void suite##_##name##_body();                                          \
  GTEST_TEST(suite, name) { ocl::testing::run_or_skip(suite##_##name##_body); } \
  static void suite##_##name##_body()

// A device array that starts with the values of `host`; NaN-poisoned when made from a size.
template <class T>
class Array {
 public:
  explicit Array(size_t n) : Array(std::vector<T>(n, poison())) {}
  explicit Array(const std::vector<T>& host) : size_(host.size()), memory_(queue(), host.size() * sizeof(T)) {
    queue().write(memory_.data(), host.data(), host.size() * sizeof(T));
  }
  T* data() const { return static_cast<T*>(memory_.data()); }
  size_t size() const { return size_; }
  std::vector<T> host() const {
    std::vector<T> result(size_);
    queue().read(result.data(), memory_.data(), size_ * sizeof(T));
    return result;
  }

 private:
  static T poison() {
    T value;
    std::memset(&value, 0xff, sizeof value);  // NaN for floating types
    return value;
  }
  size_t size_;
  Workspace memory_;
};

template <class T>
std::vector<T> random_values(size_t n, unsigned seed = 1, double low = -1, double high = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  std::vector<T> values(n);
  for (T& value : values) value = static_cast<T>(distribution(engine));
  return values;
}

// Largest |actual - expected| over rms(expected); NaN anywhere it is not expected gives infinity.
template <class A, class E>
double relative_error(const std::vector<A>& actual, const std::vector<E>& expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double worst = 0, square = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = static_cast<double>(actual[i]), e = static_cast<double>(expected[i]);
    if (std::isnan(a) != std::isnan(e)) return INFINITY;
    if (std::isnan(e) || a == e) continue;
    if (!(std::abs(a - e) < INFINITY)) return INFINITY;
    worst = std::max(worst, std::abs(a - e));
    square += e * e;
  }
  const double rms = std::sqrt(square / std::max<size_t>(1, actual.size()));
  return worst == 0 ? 0 : worst / std::max(rms, 1e-30);
}

}  // namespace ocl::testing
