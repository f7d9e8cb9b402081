// The execution provider of one session and one device.
#pragma once

#include "onnxruntime/api.h"
#include "opencl/device.h"

namespace ocl::ort {

inline constexpr const char* provider_name = "OclExecutionProvider";

// Owned by ONNX Runtime, which gives it back to release_provider(). Errors: ocl::Error.
OrtEp* make_provider(Device& device, const OrtLogger* logger);
void release_provider(OrtEp* provider) noexcept;

}  // namespace ocl::ort
