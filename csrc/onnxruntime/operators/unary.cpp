// Operators of one tensor, element by element.
#include "onnxruntime/host.h"
#include "onnxruntime/operators/common.h"

#include <cmath>
#include <limits>

namespace ocl::ort {

namespace {

// A row of the library's table with numbers as arguments; the result has the input's type.
Kernel with(const char* row, std::vector<double> scalars = {}) {
  return [row, scalars = std::move(scalars)](Run& run) {
    const DType type = run.dtype(0);
    switch (scalars.size()) {
      case 0: return elementwise_output(run, 0, row, type, type, {0});
      case 1: return elementwise_output(run, 0, row, type, type, {0}, {scalars[0]});
      case 2: return elementwise_output(run, 0, row, type, type, {0}, {scalars[0], scalars[1]});
      default: return elementwise_output(run, 0, row, type, type, {0}, {scalars[0], scalars[1], scalars[2]});
    }
  };
}

template <size_t n>
struct Text {
  char value[n];
  consteval Text(const char (&text)[n]) { std::copy(text, text + n, value); }
};

template <Text row>
Kernel plain(const Node& node) {
  return [op = node.op, on_device = with(row.value)](Run& run) {
    if (run.on_host(0))
      if (auto known = host_unary(op, run.host(0))) return run.give(0, std::move(*known));
    on_device(run);
  };
}

template <Text row>
Kernel predicate(const Node&) {
  return [](Run& run) { elementwise_output(run, 0, row.value, run.dtype(0), DType::boolean, {0}); };
}

Kernel leaky_relu(const Node& node) { return with("leaky_relu", {node.number("alpha", 0.01f)}); }

Kernel thresholded_relu(const Node& node) { return with("threshold", {node.number("alpha", 1), 0}); }

Kernel elu(const Node& node) { return with("elu", {node.number("alpha", 1), 1, 1}); }

Kernel selu(const Node& node) {
  const double alpha = node.number("alpha", 1.67326319217681884765625f),
               gamma = node.number("gamma", 1.05070102214813f);
  return with("elu", {alpha * gamma, gamma, 1});
}

Kernel celu(const Node& node) {
  const double alpha = node.number("alpha", 1);
  return with("elu", {alpha, 1, 1 / alpha});
}

Kernel hard_sigmoid(const Node& node) {
  return with("scale_clamp", {node.number("alpha", 0.2f), node.number("beta", 0.5f)});
}

Kernel softplus(const Node&) { return with("softplus", {1, 20}); }

Kernel swish(const Node& node) {
  need(node.number("alpha", 1) == 1, "an alpha that is not 1");
  return with("silu");
}

Kernel gelu(const Node& node) { return with(node.text("approximate", "none") == "tanh" ? "gelu_tanh" : "gelu"); }

Kernel shrink(const Node& node) {
  const double lambda = node.number("lambd", 0.5f), bias = node.number("bias", 0);
  need(bias == 0 || bias == lambda, "a bias that is neither 0 nor lambd");
  return with(bias == 0 ? "hardshrink" : "softshrink", {lambda});
}

Kernel is_infinite(const Node& node) {
  const bool positive = node.integer("detect_positive", 1) != 0, negative = node.integer("detect_negative", 1) != 0;
  need(positive != negative, "both or no infinity");
  if (positive) return predicate<"isposinf">(node);
  return predicate<"isneginf">(node);
}

// Bounds are attributes (6), or inputs (11) that may be computed while the model runs.
Kernel clip(const Node& node) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (node.version < 11) {
    const double low = node.number("min", -infinity), high = node.number("max", infinity);
    return with("clamp", {low, high});
  }
  return [](Run& run) {
    const DType type = run.dtype(0);
    const bool known = (!run.has(1) || run.on_host(1)) && (!run.has(2) || run.on_host(2));
    if (known || !run.has(1) || !run.has(2)) {
      using ops::ElementwiseScalar;
      const auto bound = [&](int input) {
        const HostTensor& t = run.host(input);
        return t.whole() ? ElementwiseScalar(t.integer(0)) : ElementwiseScalar(t.real(0));
      };
      if (run.has(1) && run.has(2)) {
        // a minimum above the maximum gives the maximum
        const HostTensor &low = run.host(1), &high = run.host(2);
        const bool crossed = low.real(0) > high.real(0);
        return elementwise_output(run, 0, "clamp", type, type, {0}, {crossed ? bound(2) : bound(1), bound(2)});
      }
      if (run.has(1)) return elementwise_output(run, 0, "clamp_min", type, type, {0}, {bound(1)});
      if (run.has(2)) return elementwise_output(run, 0, "clamp_max", type, type, {0}, {bound(2)});
      return elementwise_output(run, 0, "copy", type, type, {0});
    }
    elementwise_output(run, 0, "clamp_tensor", type, type, {0, 1, 2});
  };
}

Kernel cast(const Node& node) {
  need(node.outputs.at(0).dtype.has_value(), "an element type that the device does not have");
  const DType to = *node.outputs[0].dtype;
  need(everything.has(to), "an element type that the device does not compute in");
  return [to](Run& run) {
    if (run.on_host(0) && HostTensor::handles(to)) {
      HostTensor t = run.host(0);
      HostTensor y{to, t.sizes, {}, {}};
      for (size_t i = 0; i < static_cast<size_t>(t.count()); ++i) {
        if (!y.whole())
          y.reals.push_back(t.real(i));
        else
          y.integers.push_back(to == DType::boolean ? t.real(i) != 0 : t.integer(i));
      }
      // what was cut off by the type is cut off on the host as well
      return run.give(0, HostTensor::decode(to, y.sizes, y.encode().data()));
    }
    if (run.dtype(0) == to) return run.alias(0, 0, run.view(0));
    elementwise_output(run, 0, "copy", to, to, {0});
  };
}

constexpr TypeSet reals = floats,
                  signed_numbers = floats | TypeSet{DType::int64, DType::int32, DType::int16, DType::int8};

constexpr Operator rows[] = {
    {"Abs", numbers, plain<"abs">},
    {"Neg", signed_numbers, plain<"neg">},
    {"Sign", numbers, plain<"sign">},
    {"Reciprocal", reals, plain<"reciprocal">},
    {"Sqrt", reals, plain<"sqrt">},
    {"Exp", reals, plain<"exp">},
    {"Log", reals, plain<"log">},
    {"Sin", reals, plain<"sin">},
    {"Cos", reals, plain<"cos">},
    {"Tan", reals, plain<"tan">},
    {"Asin", reals, plain<"asin">},
    {"Acos", reals, plain<"acos">},
    {"Atan", reals, plain<"atan">},
    {"Sinh", reals, plain<"sinh">},
    {"Cosh", reals, plain<"cosh">},
    {"Tanh", reals, plain<"tanh">},
    {"Asinh", reals, plain<"asinh">},
    {"Acosh", reals, plain<"acosh">},
    {"Atanh", reals, plain<"atanh">},
    {"Erf", reals, plain<"erf">},
    {"Ceil", reals, plain<"ceil">},
    {"Floor", reals, plain<"floor">},
    {"Round", reals, plain<"round">},
    {"Sigmoid", reals, plain<"sigmoid">},
    {"Relu", signed_numbers, plain<"relu">},
    {"Softsign", reals, plain<"softsign">},
    {"HardSwish", reals, plain<"hardswish">},
    {"Mish", reals, plain<"mish">},
    {"Not", booleans, predicate<"logical_not">},
    {"IsNaN", reals, predicate<"isnan">},
    {"IsInf", reals, is_infinite},
    {"BitwiseNot", whole, plain<"bitwise_not">},
    {"LeakyRelu", reals, leaky_relu},
    {"ThresholdedRelu", reals, thresholded_relu},
    {"Elu", reals, elu},
    {"Selu", reals, selu},
    {"Celu", reals, celu},
    {"HardSigmoid", reals, hard_sigmoid},
    {"Softplus", reals, softplus},
    {"Swish", reals, swish},
    {"Gelu", reals, gelu},
    {"Shrink", reals, shrink},
    {"Clip", numbers, clip, 6},
    {"Cast", everything, cast, 6},
    {"CastLike", everything, cast},
};

}  // namespace

std::span<const Operator> unary_operators() { return rows; }

}  // namespace ocl::ort
