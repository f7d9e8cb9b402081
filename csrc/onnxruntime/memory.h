// Device memory for ONNX Runtime: an allocator for each device, and copies between devices and the host.
#pragma once

#include "onnxruntime/api.h"
#include "opencl/device.h"

namespace ocl::ort {

// Of OpenCL devices in ONNX Runtime's numbering; not a PCI vendor, because one library serves all of them.
inline constexpr uint32_t vendor_id = 0x0C10;

// The memory of a device as ONNX Runtime names it. Lives as long as the process.
const OrtMemoryInfo* memory_info(const Device& device);

// Errors: InvalidArgument for memory that is none of a device.
OrtAllocator* make_allocator(const OrtMemoryInfo* info);
void release_allocator(OrtAllocator* allocator) noexcept;

OrtDataTransferImpl* make_data_transfer();

}  // namespace ocl::ort
