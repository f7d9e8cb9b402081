// ONNX Runtime's C interface as this library uses it: version 23 (ONNX Runtime 1.23), which later releases offer too.
#pragma once

#define ORT_API_MANUAL_INIT
#include <onnxruntime_c_api.h>

#include "ops/core/dtype.h"

#include <optional>
#include <string>

namespace ocl::ort {

inline constexpr uint32_t api_version = 23;

// Set by CreateEpFactories before anything else is called.
extern const OrtApi* api;
extern const OrtEpApi* ep_api;

// Throws what a call of ONNX Runtime failed with. Errors: ocl::Error.
void check(OrtStatus* status);

// A status with the text of the exception that is being handled. Only inside of a catch block.
OrtStatus* status_of_exception() noexcept;

// What every function that ONNX Runtime calls does with exceptions: nothing leaves this library but a status.
template <class F>
OrtStatus* guarded(const F& f) noexcept {
  try {
    f();
    return nullptr;
  } catch (...) {
    return status_of_exception();
  }
}

// Nothing for types that this library has no elements of (strings, 4-bit numbers).
std::optional<ops::DType> dtype_of(ONNXTensorElementDataType type);
ONNXTensorElementDataType element_type(ops::DType dtype);

}  // namespace ocl::ort
