// Operators of several tensors, element by element, with broadcasting.
#include "onnxruntime/host.h"
#include "onnxruntime/operators/common.h"

namespace ocl::ort {

namespace {

// Two inputs of one type; the result has it too, or is boolean.
Kernel binary(const Node& node, const char* row, bool boolean) {
  need(node.version >= 7, "broadcasting of opsets before 7");
  return [op = node.op, row, boolean](Run& run) {
    if (run.all_on_host())
      if (auto known = host_binary(op, run.host(0), run.host(1))) return run.give(0, std::move(*known));
    const DType type = run.dtype(0);
    elementwise_output(run, 0, row, type, boolean ? DType::boolean : type, {0, 1});
  };
}

template <size_t n>
struct Text {
  char value[n];
  consteval Text(const char (&text)[n]) { std::copy(text, text + n, value); }
};

template <Text row>
Kernel same(const Node& node) {
  return binary(node, row.value, false);
}

template <Text row>
Kernel compared(const Node& node) {
  return binary(node, row.value, true);
}

// Made by fusion.cpp.
Kernel add_relu(const Node&) {
  return [](Run& run) { elementwise_output(run, 0, "add_relu", run.dtype(0), run.dtype(0), {0, 1}, {1.0}); };
}

Kernel power(const Node& node) {
  need(node.version >= 7, "broadcasting of opsets before 7");
  need(ops::is_floating(node.dtype(0)) || ops::is_integral(node.dtype(1)), "an integer to a power that is none");
  return [](Run& run) {
    const DType type = run.dtype(0);
    if (run.all_on_host())
      if (auto known = host_binary("Pow", run.host(0), run.host(1))) return run.give(0, std::move(*known));
    if (run.on_host(1) && run.host(1).count() == 1 && ops::is_floating(type)) {
      const double exponent = run.host(1).real(0);
      if (exponent == 2 && run.rank(1) <= run.rank(0)) return elementwise_output(run, 0, "pow_2", type, type, {0});
      if (exponent == 0.5 && run.rank(1) <= run.rank(0)) return elementwise_output(run, 0, "sqrt", type, type, {0});
    }
    elementwise_output(run, 0, "pow", type, type, {0, 1});
  };
}

Kernel modulo(const Node& node) {
  const bool dividend_sign = node.integer("fmod", 0) != 0;
  need(dividend_sign || !ops::is_floating(node.dtype(0)), "floating numbers need fmod = 1");
  return binary(node, dividend_sign ? "fmod" : "remainder", false);
}

Kernel shift(const Node& node) {
  return binary(node, node.text("direction", "LEFT") == "LEFT" ? "shift_left" : "shift_right", false);
}

Kernel prelu(const Node& node) { return binary(node, "prelu", false); }

// Any number of inputs, combined one after the other; `mean` divides by their number.
Kernel variadic(const Node& node, const char* row, bool mean) {
  need(node.version >= 8, "no broadcasting before opset 8");
  return [op = node.op, row, mean](Run& run) {
    const int n = run.inputs();
    if (n == 2 && run.all_on_host())
      if (auto known = host_binary(op, run.host(0), run.host(1))) return run.give(0, std::move(*known));
    std::vector<Sizes> all;
    all.reserve(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) all.push_back(run.sizes(i));
    const Sizes sizes = broadcast_sizes(all);
    const DType type = run.dtype(0), compute = ops::compute_type(type);
    const TensorView y = run.output(0, type, sizes);
    if (count_of(sizes) == 0) return;
    Queue& queue = run.queue();
    if (n == 1) return ops::elementwise(queue, ops::elementwise_row("copy"), compute, y, {run.view(0)});
    ops::elementwise(queue, ops::elementwise_row(row), compute, y,
                     {broadcast(run.view(0), sizes), broadcast(run.view(1), sizes)});
    for (int i = 2; i < n; ++i)
      ops::elementwise(queue, ops::elementwise_row(row), compute, y, {y, broadcast(run.view(i), sizes)});
    if (mean) ops::elementwise(queue, ops::elementwise_row("scale"), compute, y, {y}, {1.0 / n});
  };
}

template <Text row>
Kernel combined(const Node& node) {
  return variadic(node, row.value, node.op == "Mean");
}

Kernel where(const Node& node) {
  need(everything.has(node.dtype(1)), "not for this element type");
  return [](Run& run) {
    if (run.all_on_host())
      if (auto known = host_where(run.host(0), run.host(1), run.host(2))) return run.give(0, std::move(*known));
    const DType type = run.dtype(1);
    elementwise_output(run, 0, "where", type, type, {0, 1, 2});
  };
}

constexpr Operator rows[] = {
    {"Add", numbers, same<"add">},
    {"AddRelu", floats, add_relu},
    {"Sub", numbers, same<"sub">},
    {"Mul", numbers, same<"mul">},
    {"Div", numbers, same<"div">},
    {"Pow", numbers, power},
    {"Mod", numbers, modulo},
    {"PRelu", numbers, prelu},
    {"BitShift", TypeSet{DType::uint8}, shift},
    {"BitwiseAnd", whole, same<"bitwise_and">},
    {"BitwiseOr", whole, same<"bitwise_or">},
    {"BitwiseXor", whole, same<"bitwise_xor">},
    {"And", booleans, compared<"logical_and">},
    {"Or", booleans, compared<"logical_or">},
    {"Xor", booleans, compared<"logical_xor">},
    {"Equal", everything, compared<"eq">},
    {"Less", numbers, compared<"lt">},
    {"Greater", numbers, compared<"gt">},
    {"LessOrEqual", numbers, compared<"le">},
    {"GreaterOrEqual", numbers, compared<"ge">},
    {"Max", numbers, combined<"maximum">},
    {"Min", numbers, combined<"minimum">},
    {"Sum", floats, combined<"add">},
    {"Mean", floats, combined<"add">},
    {"Where", booleans, where},
};

}  // namespace

std::span<const Operator> binary_operators() { return rows; }

}  // namespace ocl::ort
