#include "onnxruntime/lowering.h"

#include "onnxruntime/operator.h"

namespace ocl::ort {

namespace {

// A float sum of products of two bytes is exact up to so many of them.
constexpr int64_t exact_products = (int64_t{1} << 24) / (255 * 255);

class Lowering {
 public:
  explicit Lowering(const Node& node) : node_(node) {}

  std::vector<Node> take() { return std::move(made_); }

  // Values are named after the node's first output, which no other node gives.
  ValueInfo value(const char* what, DType dtype, const ValueInfo& like) const {
    ValueInfo v = like;
    v.name = node_.outputs.at(0).name + "/ocl/" + what;
    v.dtype = dtype;
    v.constant = nullptr, v.initializer = false;
    return v;
  }

  Node& add(const char* op, const char* domain, int version, std::vector<ValueInfo> inputs,
            std::vector<ValueInfo> outputs) {
    Node& node = made_.emplace_back();
    node.name = node_.name, node.op = op, node.domain = domain, node.version = version;
    node.inputs = std::move(inputs), node.outputs = std::move(outputs);
    return node;
  }

  // The numbers that codes stand for.
  ValueInfo numbers(const char* what, size_t codes, size_t scale, size_t zero, int64_t axis) {
    const ValueInfo y = value(what, node_.dtype(scale), node_.inputs.at(codes));
    add("DequantizeLinear", "", 13, {node_.inputs[codes], node_.inputs.at(scale), node_.inputs.at(zero)}, {y})
        .attributes["axis"]
        .integers = {axis};
    return y;
  }

  // Codes minus their zero point as float32.
  ValueInfo centred(const char* what, size_t codes, size_t zero, int64_t axis) {
    const ValueInfo y = value(what, DType::float32, node_.inputs.at(codes));
    add("Centre", own_domain, 1, {node_.inputs[codes], node_.has(zero) ? node_.inputs[zero] : ValueInfo{}}, {y})
        .attributes["axis"]
        .integers = {axis};
    return y;
  }

 private:
  const Node& node_;
  std::vector<Node> made_;
};

constexpr TypeSet codes{DType::int8, DType::uint8};

void need_codes(const Node& node, std::initializer_list<size_t> inputs) {
  for (const size_t i : inputs) need(codes.has(node.dtype(i)), "codes that are no bytes");
}

// A vector of zero points of one operand of a product belongs to its rows or columns.
std::vector<Node> qlinear_matmul(const Node& node) {
  need_codes(node, {0, 3});
  need(node.dtype(1) == DType::float32 && node.dtype(6) == DType::float32, "scales that are not float32");
  Lowering to(node);
  const ValueInfo a = to.numbers("a", 0, 1, 2, -2), b = to.numbers("b", 3, 4, 5, -1);
  const ValueInfo y = to.value("y", DType::float32, node.outputs.at(0));
  to.add("MatMul", "", 13, {a, b}, {y});
  to.add("QuantizeLinear", "", 13, {y, node.inputs.at(6), node.inputs.at(7)}, node.outputs);
  return to.take();
}

std::vector<Node> qlinear_conv(const Node& node) {
  need_codes(node, {0, 3});
  Lowering to(node);
  std::vector<ValueInfo> inputs{to.numbers("x", 0, 1, 2, 1), to.numbers("w", 3, 4, 5, 0)};
  if (node.has(8)) {
    const ValueInfo bias = to.value("bias", DType::float32, node.inputs[8]);
    // its codes count in steps of both scales
    to.add("ScaledBias", own_domain, 1, {node.inputs[8], node.inputs.at(1), node.inputs.at(4)}, {bias});
    inputs.push_back(bias);
  }
  const ValueInfo y = to.value("y", DType::float32, node.outputs.at(0));
  to.add("Conv", "", 11, std::move(inputs), {y}).attributes = node.attributes;
  to.add("QuantizeLinear", "", 13, {y, node.inputs.at(6), node.inputs.at(7)}, node.outputs);
  return to.take();
}

std::vector<Node> conv_integer(const Node& node) {
  need_codes(node, {0, 1});
  const ValueInfo& w = node.inputs.at(1);
  need(w.ranked && w.sizes.size() >= 3, "a kernel of unknown sizes");
  int64_t products = 1;
  for (size_t d = 1; d < w.sizes.size(); ++d) products *= w.sizes[d];
  need(products > 0 && products <= exact_products, "more products in a sum than float32 has digits for");
  Lowering to(node);
  const ValueInfo x = to.centred("x", 0, 2, 1), kernel = to.centred("w", 1, 3, 0);
  const ValueInfo y = to.value("y", DType::float32, node.outputs.at(0));
  to.add("Conv", "", 11, {x, kernel}, {y}).attributes = node.attributes;
  to.add("Cast", "", 13, {y}, node.outputs);
  return to.take();
}

std::vector<Node> matmul_integer(const Node& node) {
  need_codes(node, {0, 1});
  Lowering to(node);
  const ValueInfo a = to.centred("a", 0, 2, -2), b = to.centred("b", 1, 3, -1);
  to.add("ExactMatMul", own_domain, 1, {a, b}, node.outputs).attributes["products"].integers = {exact_products};
  return to.take();
}

struct Recurrent {
  const char* op;
  const char* sequence;
  int64_t gates;
};
constexpr Recurrent recurrent_kinds[] = {{"LSTM", "LstmLayer", 4}, {"GRU", "GruLayer", 3}, {"RNN", "RnnLayer", 1}};

std::vector<Node> recurrent(const Node& node, const Recurrent& kind) {
  need(!node.attribute("clip"), "a clip");
  need(node.integer("input_forget", 0) == 0, "coupled gates");
  need(!node.has(7), "peepholes");
  need(!node.has(4), "sequences of several lengths");
  Lowering to(node);
  const DType dtype = node.dtype(0);
  const ValueInfo w = to.value("w", dtype, {}), bias = to.value("bias", dtype, {}), r = to.value("r", dtype, {}),
                  recurrent_bias = to.value("recurrent_bias", dtype, {}), packed = to.value("packed", dtype, {});
  Node& weights = to.add("RecurrentWeights", own_domain, 1,
                         {node.inputs.at(1), node.inputs.at(2), node.has(3) ? node.inputs[3] : ValueInfo{}},
                         {w, bias, r, recurrent_bias, packed});
  weights.attributes["gates"].integers = {kind.gates};
  weights.attributes["linear_before_reset"].integers = {node.integer("linear_before_reset", 0)};
  std::vector<ValueInfo> inputs{node.inputs[0], w, bias, r, recurrent_bias, packed};
  for (const size_t state : {5, 6}) inputs.push_back(node.has(state) ? node.inputs[state] : ValueInfo{});
  to.add(kind.sequence, own_domain, 1, std::move(inputs), node.outputs).attributes = node.attributes;
  return to.take();
}

}  // namespace

std::vector<Node> lower(const Node& node) {
  if (node.domain.empty() || node.domain == "ai.onnx") {
    if (node.op == "QLinearMatMul") return qlinear_matmul(node);
    if (node.op == "QLinearConv") return qlinear_conv(node);
    if (node.op == "ConvInteger") return conv_integer(node);
    if (node.op == "MatMulInteger") return matmul_integer(node);
    for (const Recurrent& kind : recurrent_kinds)
      if (node.op == kind.op) return recurrent(node, kind);
  }
  return {node};
}

}  // namespace ocl::ort
