#include "onnxruntime/operator.h"

#include "onnxruntime/lowering.h"

#include <string_view>
#include <unordered_map>

namespace ocl::ort {

void need(bool condition, const char* reason) {
  if (!condition) throw InvalidArgument(reason);
}

int axis_of(int64_t axis, int rank) {
  const int64_t front = axis < 0 ? axis + rank : axis;
  if (front < 0 || front >= std::max(rank, 1))
    throw InvalidArgument("axis " + std::to_string(axis) + " of a tensor of " + std::to_string(rank) + " dimensions");
  return static_cast<int>(front);
}

std::vector<const Operator*> all_operators() {
  std::vector<const Operator*> all;
  for (const auto& rows : {unary_operators(), binary_operators(), linear_operators(), attention_operators(),
                           quantized_operators(), recurrent_operators(), detection_operators(), convolution_operators(),
                           pooling_operators(), normalization_operators(), shape_operators(), slice_operators(),
                           index_operators(), sequence_operators(), reduction_operators(), resize_operators()})
    for (const Operator& row : rows) all.push_back(&row);
  return all;
}

namespace {

const Operator* find_row(const Node& node) {
  static const auto* const by_name = [] {
    auto* map = new std::unordered_multimap<std::string_view, const Operator*>;
    for (const Operator* row : all_operators()) map->emplace(row->name, row);
    return map;
  }();
  const auto [begin, end] = by_name->equal_range(node.op);
  for (auto it = begin; it != end; ++it)
    if (node.version >= it->second->first && node.version <= it->second->last) return it->second;
  return nullptr;
}

void check_type(const ValueInfo& value, const Device& device, const Node& node) {
  if (!value.present()) return;
  if (!value.dtype) throw InvalidArgument("a value is no tensor of a known element type");
  ops::require_dtype(device, *value.dtype, node.op.c_str());
}

}  // namespace

Kernel make_kernel(const Node& node, const Device& device) {
  need(node.domain.empty() || node.domain == "ai.onnx" || node.domain == own_domain, "not in ONNX's own domain");
  const Operator* row = find_row(node);
  need(row, "no row of the table for this operator and opset");
  for (const ValueInfo& value : node.inputs) check_type(value, device, node);
  for (const ValueInfo& value : node.outputs) check_type(value, device, node);
  const ValueInfo* first = node.has(0) ? &node.inputs[0] : node.gives(0) ? &node.outputs[0] : nullptr;
  need(first && row->types.has(*first->dtype), "not for this element type");
  return row->make(node);
}

}  // namespace ocl::ort
