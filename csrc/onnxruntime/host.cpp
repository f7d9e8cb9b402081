#include "onnxruntime/host.h"

#include "onnxruntime/operators/common.h"

#include <cmath>

namespace ocl::ort {

namespace {

template <class T>
struct Function {
  const char* name;
  T (*f)(T, T);
};

// Integers wrap around as the device's do.
int64_t wrap(uint64_t bits) { return static_cast<int64_t>(bits); }
uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

constexpr Function<int64_t> integer_functions[] = {
    {"Add", [](int64_t a, int64_t b) { return wrap(bits(a) + bits(b)); }},
    {"Sub", [](int64_t a, int64_t b) { return wrap(bits(a) - bits(b)); }},
    {"Mul", [](int64_t a, int64_t b) { return wrap(bits(a) * bits(b)); }},
    {"Div", [](int64_t a, int64_t b) { return b == 0    ? 0
                                              : b == -1 ? wrap(0 - bits(a))
                                                        : a / b; }},
    {"Mod", [](int64_t a,
               int64_t b) { return b == 0 || b == -1 ? 0 : a % b + ((a % b != 0 && (a % b < 0) != (b < 0)) ? b : 0); }},
    {"Max", [](int64_t a, int64_t b) { return a > b ? a : b; }},
    {"Min", [](int64_t a, int64_t b) { return a < b ? a : b; }},
    {"And", [](int64_t a, int64_t b) -> int64_t { return a && b; }},
    {"Or", [](int64_t a, int64_t b) -> int64_t { return a || b; }},
    {"Xor", [](int64_t a, int64_t b) -> int64_t { return !a != !b; }},
    {"Equal", [](int64_t a, int64_t b) -> int64_t { return a == b; }},
    {"Less", [](int64_t a, int64_t b) -> int64_t { return a < b; }},
    {"Greater", [](int64_t a, int64_t b) -> int64_t { return a > b; }},
    {"LessOrEqual", [](int64_t a, int64_t b) -> int64_t { return a <= b; }},
    {"GreaterOrEqual", [](int64_t a, int64_t b) -> int64_t { return a >= b; }},
};

constexpr Function<double> real_functions[] = {
    {"Add", [](double a, double b) { return a + b; }},          {"Sub", [](double a, double b) { return a - b; }},
    {"Mul", [](double a, double b) { return a * b; }},          {"Div", [](double a, double b) { return a / b; }},
    {"Pow", [](double a, double b) { return std::pow(a, b); }},
};

bool is_comparison(const std::string& op) {
  return op == "Equal" || op == "Less" || op == "Greater" || op == "LessOrEqual" || op == "GreaterOrEqual";
}

template <class T, size_t n>
auto find(const Function<T> (&functions)[n], const std::string& op) -> T (*)(T, T) {
  for (const Function<T>& function : functions)
    if (op == function.name) return function.f;
  return nullptr;
}

// Row-major position -> element of a tensor that is broadcast to `sizes`.
std::function<int64_t(int64_t)> broadcast_positions(const HostTensor& t, const Sizes& sizes) {
  const TensorView view = broadcast(TensorView::contiguous(nullptr, t.dtype, t.sizes), sizes);
  return [view](int64_t i) {
    int64_t at = 0;
    for (int d = view.dims; d-- > 0; i /= view.sizes[d]) at += i % view.sizes[d] * view.strides[d];
    return at;
  };
}

// As the type has it: floats are rounded, small integers wrap.
HostTensor rounded(const HostTensor& t) { return HostTensor::decode(t.dtype, t.sizes, t.encode().data()); }

}  // namespace

HostTensor host_pick(const HostTensor& x, Sizes sizes, const std::function<int64_t(int64_t)>& source) {
  HostTensor y{x.dtype, std::move(sizes), {}, {}};
  for (int64_t i = 0, n = y.count(); i < n; ++i) {
    const auto from = static_cast<size_t>(source(i));
    if (x.whole())
      y.integers.push_back(x.integers.at(from));
    else
      y.reals.push_back(x.reals.at(from));
  }
  return y;
}

HostTensor host_strided(const HostTensor& x, const Sizes& sizes, const Sizes& strides, int64_t offset) {
  return host_pick(x, sizes, [&](int64_t i) {
    int64_t at = offset;
    for (size_t d = sizes.size(); d-- > 0; i /= sizes[d]) at += i % sizes[d] * strides[d];
    return at;
  });
}

std::optional<HostTensor> host_binary(const std::string& op, const HostTensor& a, const HostTensor& b) {
  const auto integer = find(integer_functions, op);
  const auto real = find(real_functions, op);
  if (a.whole() != b.whole() || !(a.whole() ? integer != nullptr : real != nullptr)) return std::nullopt;
  const Sizes sizes = broadcast_sizes(std::array{a.sizes, b.sizes});
  if (count_of(sizes) > host_limit) return std::nullopt;
  HostTensor y{is_comparison(op) ? DType::boolean : a.dtype, sizes, {}, {}};
  const auto at_a = broadcast_positions(a, sizes), at_b = broadcast_positions(b, sizes);
  for (int64_t i = 0, n = y.count(); i < n; ++i) {
    const auto ia = static_cast<size_t>(at_a(i)), ib = static_cast<size_t>(at_b(i));
    if (a.whole())
      y.integers.push_back(integer(a.integers[ia], b.integers[ib]));
    else
      y.reals.push_back(real(a.reals[ia], b.reals[ib]));
  }
  return rounded(y);
}

std::optional<HostTensor> host_unary(const std::string& op, const HostTensor& x) {
  if (x.whole()) return std::nullopt;
  double (*f)(double) = nullptr;
  if (op == "Sqrt") f = [](double a) { return std::sqrt(a); };
  if (op == "Reciprocal") f = [](double a) { return 1 / a; };
  if (op == "Neg") f = [](double a) { return -a; };
  if (!f) return std::nullopt;
  HostTensor y = x;
  for (double& value : y.reals) value = f(value);
  return rounded(y);
}

std::optional<HostTensor> host_where(const HostTensor& condition, const HostTensor& a, const HostTensor& b) {
  const Sizes sizes = broadcast_sizes(std::array{condition.sizes, a.sizes, b.sizes});
  if (a.dtype != b.dtype || count_of(sizes) > host_limit) return std::nullopt;
  HostTensor y{a.dtype, sizes, {}, {}};
  const auto at_c = broadcast_positions(condition, sizes);
  const auto at_a = broadcast_positions(a, sizes), at_b = broadcast_positions(b, sizes);
  for (int64_t i = 0, n = y.count(); i < n; ++i) {
    const bool first = condition.integers[static_cast<size_t>(at_c(i))] != 0;
    const HostTensor& from = first ? a : b;
    const auto at = static_cast<size_t>(first ? at_a(i) : at_b(i));
    if (y.whole())
      y.integers.push_back(from.integers[at]);
    else
      y.reals.push_back(from.reals[at]);
  }
  return y;
}

}  // namespace ocl::ort
