#include "onnxruntime/api.h"

#include "base/error.h"

namespace ocl::ort {

const OrtApi* api = nullptr;
const OrtEpApi* ep_api = nullptr;

void check(OrtStatus* status) {
  if (!status) return;
  const std::string text = api->GetErrorMessage(status);
  api->ReleaseStatus(status);
  throw Error(text);
}

OrtStatus* status_of_exception() noexcept {
  try {
    throw;
  } catch (const InvalidArgument& error) {
    return api->CreateStatus(ORT_INVALID_ARGUMENT, error.what());
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_RUNTIME_EXCEPTION, "an unknown error of the OpenCL execution provider");
  }
}

namespace {

struct TypePair {
  ONNXTensorElementDataType element;
  ops::DType dtype;
};

using ops::DType;
constexpr TypePair types[] = {
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, DType::float32},    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, DType::float16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, DType::float64},   {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, DType::int64},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, DType::int32},      {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, DType::int16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, DType::int8},        {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, DType::uint8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, DType::boolean},     {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, DType::uint16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, DType::uint32},    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, DType::uint64},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, DType::bfloat16}};

}  // namespace

std::optional<DType> dtype_of(ONNXTensorElementDataType type) {
  for (const TypePair& pair : types)
    if (pair.element == type) return pair.dtype;
  return std::nullopt;
}

ONNXTensorElementDataType element_type(DType dtype) {
  for (const TypePair& pair : types)
    if (pair.dtype == dtype) return pair.element;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

}  // namespace ocl::ort
