#include "onnxruntime/node.h"

#include "base/error.h"

namespace ocl::ort {

ops::DType Node::dtype(size_t input) const {
  if (!has(input) || !inputs[input].dtype)
    throw InvalidArgument(op + ": the element type of input " + std::to_string(input) + " is not known");
  return *inputs[input].dtype;
}

const Attribute* Node::attribute(std::string_view key) const {
  const auto found = attributes.find(key);
  return found == attributes.end() ? nullptr : &found->second;
}

int64_t Node::integer(std::string_view key, int64_t otherwise) const {
  const Attribute* a = attribute(key);
  return a && !a->integers.empty() ? a->integers[0] : otherwise;
}

float Node::number(std::string_view key, float otherwise) const {
  const Attribute* a = attribute(key);
  return a && !a->floats.empty() ? a->floats[0] : otherwise;
}

std::string Node::text(std::string_view key, const char* otherwise) const {
  const Attribute* a = attribute(key);
  return a && !a->text.empty() ? a->text : otherwise;
}

std::vector<int64_t> Node::integers(std::string_view key) const {
  const Attribute* a = attribute(key);
  return a ? a->integers : std::vector<int64_t>{};
}

}  // namespace ocl::ort
