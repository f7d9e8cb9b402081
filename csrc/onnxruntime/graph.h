// Reads ONNX Runtime's graphs.
#pragma once

#include "onnxruntime/api.h"
#include "onnxruntime/node.h"

namespace ocl::ort {

std::vector<const OrtNode*> nodes_of(const OrtGraph* graph);
Node read_node(const OrtNode* node);
ValueInfo read_value(const OrtValueInfo* value);
std::vector<ValueInfo> inputs_of(const OrtNode* node);
std::vector<ValueInfo> outputs_of(const OrtNode* node);

// Shape, type and elements of a tensor.
struct TensorData {
  DType dtype = DType::float32;
  Sizes sizes;
  const void* elements = nullptr;
};
// Errors: InvalidArgument for element types that this library does not have.
TensorData read_tensor(const OrtValue* value);

// The elements of a constant; null elements: it is none.
TensorData read_constant(const OrtValueInfo* value);

}  // namespace ocl::ort
