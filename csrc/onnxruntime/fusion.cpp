#include "onnxruntime/fusion.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace ocl::ort {

namespace {

class Fuser {
 public:
  Fuser(std::vector<Node>& nodes, const std::vector<std::string>& kept) : nodes_(nodes), gone_(nodes.size()) {
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const ValueInfo& input : nodes[i].inputs) uses_[input.name].push_back(i);
    for (const std::string& name : kept) uses_[name].insert(uses_[name].end(), 2, nodes.size());
  }

  void run() {
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].op == "Div" && nodes_[i].domain.empty()) gelu(i);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (gone_[i] || !nodes_[i].domain.empty()) continue;
      if (nodes_[i].op == "QuantizeLinear") fake_quantize(i);
      if (nodes_[i].op == "Conv") limits(i);
      if (nodes_[i].op == "MatMul" && !attention(i)) bias(i);
      if (nodes_[i].op == "Add" || nodes_[i].op == "BatchNormalization") relu(i);
    }
    size_t at = 0;
    std::erase_if(nodes_, [&](const Node&) { return gone_[at++]; });
  }

 private:
  // The only node that reads the first output of node i; nullptr: several do, or others outside.
  Node* next(const Node& node) {
    const auto found = uses_.find(node.outputs.at(0).name);
    if (found == uses_.end() || found->second.size() != 1) return nullptr;
    const bool single = node.outputs.size() == 1 || std::none_of(node.outputs.begin() + 1, node.outputs.end(),
                                                                 [](const ValueInfo& v) { return v.present(); });
    return single ? &nodes_[found->second[0]] : nullptr;
  }

  Node* next(const Node& node, const char* op) {
    Node* found = next(node);
    return found && found->op == op && found->domain.empty() ? found : nullptr;
  }

  size_t index(const Node* node) const { return static_cast<size_t>(node - nodes_.data()); }

  // The input of a node of two that is not `name`.
  static const ValueInfo& other(const Node& node, const std::string& name) {
    return node.inputs.at(node.inputs.at(0).name == name ? 1 : 0);
  }

  static bool is_real(const ValueInfo& value) { return value.dtype == DType::float32 || value.dtype == DType::float16; }

  // Whether a value is this one number.
  static bool is_number(const ValueInfo& value, double number) {
    return value.constant && value.constant->count() == 1 && std::abs(value.constant->real(0) - number) < 1e-6;
  }

  // x / sqrt(2), Erf, + 1, * x, * 0.5 with the last two in any order, as PyTorch exports GELU
  void gelu(size_t i) {
    const Node& root = nodes_[i];
    const ValueInfo x = root.inputs.at(0);
    if (!is_real(x) || !is_number(root.inputs.at(1), std::sqrt(2.0)) || x.name == root.inputs[1].name) return;
    Node* erf = next(root, "Erf");
    Node* sum = erf ? next(*erf, "Add") : nullptr;
    if (!sum || !is_number(other(*sum, erf->outputs[0].name), 1)) return;
    Node* first = next(*sum, "Mul");
    Node* last = first ? next(*first, "Mul") : nullptr;
    if (!last) return;
    const ValueInfo &a = other(*first, sum->outputs[0].name), &b = other(*last, first->outputs[0].name);
    if (!(a.name == x.name && is_number(b, 0.5)) && !(b.name == x.name && is_number(a, 0.5))) return;
    // x is read once by what remains
    auto& readers = uses_[x.name];
    const size_t at = index(last);
    for (const size_t gone : {i, index(a.name == x.name ? first : last)})
      readers.erase(std::ranges::find(readers, gone));
    readers.push_back(at);
    last->inputs = {x};
    last->op = "Gelu", last->version = 20, last->attributes.clear();
    for (const Node* node :
         {&root, static_cast<const Node*>(erf), static_cast<const Node*>(sum), static_cast<const Node*>(first)})
      gone_[index(node)] = true;
  }

  // MatMul, Add of a constant vector, Relu or exact Gelu: a, b, bias -> MatMulBias
  bool bias(size_t i) {
    Node& product = nodes_[i];
    Node* sum = next(product, "Add");
    if (!sum || !is_real(product.inputs.at(0))) return false;
    const ValueInfo added = other(*sum, product.outputs[0].name);
    if (!added.initializer || added.sizes.size() != 1 || added.name == product.outputs[0].name) return false;
    // y must have the product's sizes: a vector of the last one does not change them
    const ValueInfo& b = product.inputs.at(1);
    if (!b.ranked || b.sizes.size() < 2 || b.sizes.back() != added.sizes[0]) return false;
    Node* last = sum;
    int64_t activation = 0;
    if (Node* behind = next(*sum, "Relu"))
      last = behind, activation = 1;
    else if (Node* gelu = next(*sum, "Gelu"); gelu && gelu->text("approximate", "none") == "none")
      last = gelu, activation = 2;
    product.inputs.push_back(added);
    replace(product, "MatMulBias", {sum, last});
    product.attributes["activation"].integers = {activation};
    return true;
  }

  // Conv, then Relu or Clip between constants
  void limits(size_t i) {
    Node& first = nodes_[i];
    Node* last = next(first);
    if (!last || !last->domain.empty() || !is_real(first.inputs.at(0))) return;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    float low = -infinity, high = infinity;
    if (last->op == "Relu") {
      low = 0;
    } else if (last->op == "Clip" && last->inputs.at(0).name == first.outputs.at(0).name) {
      low = last->number("min", low), high = last->number("max", high);
      for (const size_t bound : {1, 2}) {
        if (!last->has(bound)) continue;
        const HostTensor* value = last->constant(bound);
        if (!value || value->count() != 1) return;
        (bound == 1 ? low : high) = static_cast<float>(value->real(0));
      }
      low = std::min(low, high);  // a minimum above the maximum gives the maximum
    } else {
      return;
    }
    replace(first, "ConvLimited", {last});
    first.attributes["low"].floats = {low}, first.attributes["high"].floats = {high};
  }

  static bool same(const ValueInfo& a, const ValueInfo& b) {
    if (a.name == b.name) return true;
    return a.constant && b.constant && a.dtype == b.dtype && a.sizes == b.sizes &&
           a.constant->integers == b.constant->integers && a.constant->reals == b.constant->reals;
  }

  // QuantizeLinear that is read by DequantizeLinear of the same steps only: numbers that the codes stand for
  void fake_quantize(size_t i) {
    Node& codes = nodes_[i];
    const auto found = uses_.find(codes.outputs.at(0).name);
    if (found == uses_.end() || !codes.has(2) || !is_real(codes.inputs.at(0))) return;
    for (const size_t at : found->second) {
      if (at == nodes_.size()) return;
      const Node& back = nodes_[at];
      const bool fits = back.op == "DequantizeLinear" && back.domain.empty() && back.has(2) &&
                        back.inputs[0].name == codes.outputs[0].name && same(back.inputs[1], codes.inputs[1]) &&
                        same(back.inputs[2], codes.inputs[2]) && back.integer("axis", 1) == codes.integer("axis", 1) &&
                        back.integer("block_size", 0) == codes.integer("block_size", 0);
      if (!fits || (at != found->second[0] && is_kept(back.outputs.at(0).name))) return;
    }
    const std::vector<size_t> backs = found->second;
    const ValueInfo result = nodes_[backs[0]].outputs.at(0);
    for (const size_t at : backs) {
      gone_[at] = true;
      if (at != backs[0]) rename(nodes_[at].outputs[0].name, result);
    }
    codes.outputs = {result};
    codes.op = "FakeQuantize", codes.domain = own_domain;
  }

  bool is_kept(const std::string& name) const {
    const auto found = uses_.find(name);
    return found != uses_.end() && std::ranges::find(found->second, nodes_.size()) != found->second.end();
  }

  // Whoever reads `name` reads `value`.
  void rename(const std::string& name, const ValueInfo& value) {
    const std::vector<size_t> readers = uses_[name];
    for (const size_t reader : readers)
      for (ValueInfo& input : nodes_[reader].inputs)
        if (input.name == name) input = value;
    auto& all = uses_[value.name];
    all.insert(all.end(), readers.begin(), readers.end());
    uses_.erase(name);
  }

  // Add or BatchNormalization, then Relu
  void relu(size_t i) {
    Node& first = nodes_[i];
    Node* last = next(first, "Relu");
    if (!last || !is_real(first.inputs.at(0))) return;
    replace(first, first.op == "Add" ? "AddRelu" : "BatchNormRelu", {last});
  }

  // softmax(scale q k^T + mask) v
  bool attention(size_t i) {
    const Node& scores = nodes_[i];
    if (!is_real(scores.inputs.at(0))) return false;
    double scale = 1;
    ValueInfo factor;  // one that is computed while the model runs
    bool divides = false;
    const Node* at = &scores;
    std::vector<Node*> behind;
    if (Node* scaled = next(*at); scaled && (scaled->op == "Mul" || scaled->op == "Div")) {
      factor = other(*scaled, at->outputs[0].name);
      divides = scaled->op == "Div";
      if (divides && scaled->inputs[0].name != at->outputs[0].name) return false;
      if (factor.constant && factor.constant->count() == 1) {
        scale = divides ? 1 / factor.constant->real(0) : factor.constant->real(0);
        factor = {};
      }
      behind.push_back(scaled);
      at = scaled;
    }
    ValueInfo mask;
    if (Node* masked = next(*at, "Add")) {
      mask = other(*masked, at->outputs[0].name);
      behind.push_back(masked);
      at = masked;
    }
    Node* softmax = next(*at, "Softmax");
    if (!softmax || softmax->version < 13) return false;
    const int64_t axis = softmax->integer("axis", -1);
    if (axis != -1 && !(softmax->ranked(0) && axis == softmax->rank(0) - 1)) return false;
    behind.push_back(softmax);
    Node* weighted = next(*softmax, "MatMul");
    if (!weighted || weighted->inputs.at(0).name != softmax->outputs[0].name) return false;
    // All inputs exist where the last node stands.
    weighted->inputs = {scores.inputs[0], scores.inputs[1], weighted->inputs[1], mask, factor};
    weighted->attributes["divides"].integers = {divides};
    weighted->attributes["scale"].floats = {static_cast<float>(scale)};
    weighted->op = "Attention4D", weighted->domain = own_domain;
    gone_[i] = true;
    for (const Node* node : behind) gone_[index(node)] = true;
    return true;
  }

  // `first` becomes the node that gives what the last of `others` gave.
  void replace(Node& first, const char* op, const std::vector<Node*>& others) {
    first.outputs = others.back()->outputs;
    first.op = op, first.domain = own_domain;
    for (const Node* node : others) gone_[index(node)] = true;
  }

  std::vector<Node>& nodes_;
  std::vector<bool> gone_;
  std::unordered_map<std::string, std::vector<size_t>> uses_;
};

}  // namespace

void fuse(std::vector<Node>& nodes, const std::vector<std::string>& kept) { Fuser(nodes, kept).run(); }

}  // namespace ocl::ort
