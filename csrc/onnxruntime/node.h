// A node of a model without ONNX Runtime's handles: what the table of operators decides on and is made from.
#pragma once

#include "onnxruntime/value.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ocl::ort {

// One attribute; the member that its type says is set.
struct Attribute {
  std::vector<int64_t> integers;
  std::vector<float> floats;
  std::string text;  // of a list: with blanks in between
  std::shared_ptr<HostTensor> tensor;
};

// What is known of an input or output before anything runs.
struct ValueInfo {
  std::string name;  // empty: an optional one that is absent
  std::optional<ops::DType> dtype;
  bool ranked = false;
  std::vector<int64_t> sizes;                  // -1: not known
  std::shared_ptr<const HostTensor> constant;  // elements of a small initializer that never changes
  bool initializer = false;                    // whether it is one that never changes, of any size
  bool present() const { return !name.empty(); }
};

struct Node {
  std::string name, op, domain;
  int version = 0;  // the opset that the operator's definition is from
  std::vector<ValueInfo> inputs, outputs;
  std::map<std::string, Attribute, std::less<>> attributes;

  bool has(size_t input) const { return input < inputs.size() && inputs[input].present(); }
  bool gives(size_t output) const { return output < outputs.size() && outputs[output].present(); }
  // Element type of an input. Errors: InvalidArgument when it is not known.
  ops::DType dtype(size_t input = 0) const;
  // Whether the number of dimensions is known, and the number.
  bool ranked(size_t input = 0) const { return has(input) && inputs[input].ranked; }
  int rank(size_t input = 0) const { return static_cast<int>(inputs[input].sizes.size()); }
  // Elements of a small constant input; null where it is absent or not constant.
  const HostTensor* constant(size_t input) const { return has(input) ? inputs[input].constant.get() : nullptr; }

  const Attribute* attribute(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t otherwise) const;
  float number(std::string_view key, float otherwise) const;
  std::string text(std::string_view key, const char* otherwise) const;
  // Empty when absent.
  std::vector<int64_t> integers(std::string_view key) const;
};

}  // namespace ocl::ort
