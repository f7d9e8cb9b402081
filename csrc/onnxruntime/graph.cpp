#include "onnxruntime/graph.h"

#include "base/error.h"

#include <algorithm>
#include <cstring>

namespace ocl::ort {

namespace {

// Calls count(out), then get(array, n).
template <class T, class Count, class Get>
std::vector<T> list(const Count& count, const Get& get) {
  size_t n = 0;
  check(count(&n));
  std::vector<T> items(n);
  if (n) check(get(items.data(), n));
  return items;
}

// Bytes of an attribute's value.
std::vector<char> raw(const OrtOpAttr* attribute, OrtOpAttrType type) {
  size_t bytes = 0;
  if (OrtStatus* status = api->ReadOpAttr(attribute, type, nullptr, 0, &bytes)) api->ReleaseStatus(status);
  std::vector<char> data(bytes);
  if (bytes) check(api->ReadOpAttr(attribute, type, data.data(), bytes, &bytes));
  data.resize(bytes);
  return data;
}

template <class T>
std::vector<T> elements_of(const std::vector<char>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

std::shared_ptr<HostTensor> tensor_attribute(const OrtOpAttr* attribute) {
  OrtValue* value = nullptr;
  check(api->OpAttr_GetTensorAttributeAsOrtValue(attribute, &value));
  const std::unique_ptr<OrtValue, void (*)(OrtValue*)> owner(value, [](OrtValue* v) { api->ReleaseValue(v); });
  try {
    const TensorData data = read_tensor(value);
    return std::make_shared<HostTensor>(HostTensor::decode(data.dtype, data.sizes, data.elements));
  } catch (const InvalidArgument&) {
    return nullptr;  // strings and the like: the row that wants it says so
  }
}

Attribute read_attribute(const OrtOpAttr* attribute, OrtOpAttrType type) {
  Attribute a;
  switch (type) {
    case ORT_OP_ATTR_INT:
    case ORT_OP_ATTR_INTS: a.integers = elements_of<int64_t>(raw(attribute, type)); break;
    case ORT_OP_ATTR_FLOAT:
    case ORT_OP_ATTR_FLOATS: a.floats = elements_of<float>(raw(attribute, type)); break;
    case ORT_OP_ATTR_STRING:
    case ORT_OP_ATTR_STRINGS: {
      const std::vector<char> text = raw(attribute, type);
      a.text.assign(text.begin(), text.end());
      while (!a.text.empty() && a.text.back() == '\0') a.text.pop_back();
      std::ranges::replace(a.text, '\0', ' ');  // lists come with an end behind each text
      break;
    }
    case ORT_OP_ATTR_TENSOR: a.tensor = tensor_attribute(attribute); break;
    default: break;  // graphs: no row has them
  }
  return a;
}

void read_shape(const OrtTypeInfo* type, ValueInfo& value) {
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  check(api->CastTypeInfoToTensorInfo(type, &tensor));
  if (!tensor) return;
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check(api->GetTensorElementType(tensor, &element));
  value.dtype = dtype_of(element);
  // ONNX Runtime gives no dimensions both for a scalar and for a shape that is not known: scalars are not relied on.
  value.sizes = list<int64_t>([&](size_t* n) { return api->GetDimensionsCount(tensor, n); },
                              [&](int64_t* to, size_t n) { return api->GetDimensions(tensor, to, n); });
  value.ranked = !value.sizes.empty();
}

std::vector<ValueInfo> read_values(const std::vector<const OrtValueInfo*>& values) {
  std::vector<ValueInfo> infos;
  infos.reserve(values.size());
  for (const OrtValueInfo* value : values) infos.push_back(value ? read_value(value) : ValueInfo{});
  return infos;
}

}  // namespace

std::vector<const OrtNode*> nodes_of(const OrtGraph* graph) {
  return list<const OrtNode*>([&](size_t* n) { return api->Graph_GetNumNodes(graph, n); },
                              [&](const OrtNode** to, size_t n) { return api->Graph_GetNodes(graph, to, n); });
}

TensorData read_tensor(const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(api->GetTensorTypeAndShape(value, &info));
  const std::unique_ptr<OrtTensorTypeAndShapeInfo, void (*)(OrtTensorTypeAndShapeInfo*)> owner(
      info, [](OrtTensorTypeAndShapeInfo* i) { api->ReleaseTensorTypeAndShapeInfo(i); });
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check(api->GetTensorElementType(info, &element));
  const auto dtype = dtype_of(element);
  if (!dtype) throw InvalidArgument("a tensor of an element type that the device does not have");
  TensorData data;
  data.dtype = *dtype;
  data.sizes = list<int64_t>([&](size_t* n) { return api->GetDimensionsCount(info, n); },
                             [&](int64_t* to, size_t n) { return api->GetDimensions(info, to, n); });
  check(api->GetTensorData(value, &data.elements));
  return data;
}

TensorData read_constant(const OrtValueInfo* value) {
  bool constant = false;
  check(api->ValueInfo_IsConstantInitializer(value, &constant));
  if (!constant) return {};
  const OrtValue* tensor = nullptr;
  check(api->ValueInfo_GetInitializerValue(value, &tensor));
  if (!tensor) return {};
  return read_tensor(tensor);
}

ValueInfo read_value(const OrtValueInfo* handle) {
  ValueInfo value;
  const char* name = nullptr;
  check(api->GetValueInfoName(handle, &name));
  value.name = name ? name : "";
  if (!value.present()) return value;
  const OrtTypeInfo* type = nullptr;
  check(api->GetValueInfoTypeInfo(handle, &type));
  if (type) read_shape(type, value);
  check(api->ValueInfo_IsConstantInitializer(handle, &value.initializer));
  if (!value.initializer || !value.dtype || !HostTensor::handles(*value.dtype)) return value;
  if (count_of(value.sizes) > host_limit) return value;
  const TensorData data = read_constant(handle);
  if (!data.elements && count_of(data.sizes) != 0) return value;
  value.constant = std::make_shared<HostTensor>(HostTensor::decode(data.dtype, data.sizes, data.elements));
  value.ranked = true;
  value.sizes = data.sizes;
  return value;
}

std::vector<ValueInfo> inputs_of(const OrtNode* node) {
  return read_values(
      list<const OrtValueInfo*>([&](size_t* n) { return api->Node_GetNumInputs(node, n); },
                                [&](const OrtValueInfo** to, size_t n) { return api->Node_GetInputs(node, to, n); }));
}

std::vector<ValueInfo> outputs_of(const OrtNode* node) {
  return read_values(
      list<const OrtValueInfo*>([&](size_t* n) { return api->Node_GetNumOutputs(node, n); },
                                [&](const OrtValueInfo** to, size_t n) { return api->Node_GetOutputs(node, to, n); }));
}

Node read_node(const OrtNode* handle) {
  Node node;
  const char* text = nullptr;
  check(api->Node_GetOperatorType(handle, &text));
  node.op = text;
  check(api->Node_GetDomain(handle, &text));
  node.domain = text;
  check(api->Node_GetName(handle, &text));
  node.name = text;
  check(api->Node_GetSinceVersion(handle, &node.version));
  node.inputs = inputs_of(handle);
  node.outputs = outputs_of(handle);
  const auto attributes =
      list<const OrtOpAttr*>([&](size_t* n) { return api->Node_GetNumAttributes(handle, n); },
                             [&](const OrtOpAttr** to, size_t n) { return api->Node_GetAttributes(handle, to, n); });
  for (const OrtOpAttr* attribute : attributes) {
    const char* key = nullptr;
    OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
    check(api->OpAttr_GetName(attribute, &key));
    check(api->OpAttr_GetType(attribute, &type));
    node.attributes.emplace(key, read_attribute(attribute, type));
  }
  return node;
}

}  // namespace ocl::ort
