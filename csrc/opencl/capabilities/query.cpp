#include "opencl/capabilities/query.h"

#include "base/environment.h"
#include "opencl/error.h"

#include <algorithm>
#include <sstream>

namespace ocl {

bool Capabilities::has_extension(const char* extension) const {
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

std::string device_string(cl_device_id id, cl_device_info what) {
  size_t bytes = 0;
  if (clGetDeviceInfo(id, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
  std::string text(bytes, 0);
  check(clGetDeviceInfo(id, what, bytes, text.data(), nullptr), "clGetDeviceInfo");
  while (!text.empty() && (text.back() == 0 || text.back() == ' ')) text.pop_back();
  return text;
}

std::string platform_string(cl_platform_id id, cl_platform_info what) {
  size_t bytes = 0;
  if (clGetPlatformInfo(id, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
  std::string text(bytes, 0);
  check(clGetPlatformInfo(id, what, bytes, text.data(), nullptr), "clGetPlatformInfo");
  while (!text.empty() && text.back() == 0) text.pop_back();
  return text;
}

Capabilities query_capabilities(cl_platform_id platform, cl_device_id id) {
  Capabilities c;
  c.name = device_string(id, CL_DEVICE_NAME);
  c.vendor = device_string(id, CL_DEVICE_VENDOR);
  c.driver_version = device_string(id, CL_DRIVER_VERSION);
  c.device_version = device_string(id, CL_DEVICE_VERSION);
  c.c_version = device_string(id, CL_DEVICE_OPENCL_C_VERSION);
  c.platform_name = platform_string(platform, CL_PLATFORM_NAME);
  c.platform_version = platform_string(platform, CL_PLATFORM_VERSION);
  std::istringstream words(device_string(id, CL_DEVICE_EXTENSIONS));
  for (std::string word; words >> word;) c.extensions.push_back(word);
  const auto type = device_value<cl_device_type>(id, CL_DEVICE_TYPE);
  c.is_gpu = type & CL_DEVICE_TYPE_GPU;
  c.is_cpu = type & CL_DEVICE_TYPE_CPU;
  c.fp64 = device_value<cl_device_fp_config>(id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  c.fp16 = c.has_extension("cl_khr_fp16");
  c.sub_groups = c.has_extension("cl_khr_subgroups") || c.has_extension("cl_intel_subgroups");
  if (c.has_extension("cl_ext_float_atomics")) {
    constexpr cl_device_info single_fp_atomic = 0x4231;  // CL_DEVICE_SINGLE_FP_ATOMIC_CAPABILITIES_EXT
    c.float_atomic_add = device_value<cl_bitfield>(id, single_fp_atomic) & 2;  // CL_DEVICE_GLOBAL_FP_ATOMIC_ADD_EXT
  }
  const auto single = device_value<cl_device_fp_config>(id, CL_DEVICE_SINGLE_FP_CONFIG);
  c.correctly_rounded_divide_sqrt = single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
  c.denormals = single & CL_FP_DENORM;
  c.global_memory = device_value<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE);
  c.max_allocation = device_value<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  c.local_memory = device_value<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE);
  c.vector_floats = static_cast<uint32_t>(environment::number(
      "TORCH_OCL_VECTOR_FLOATS", device_value<cl_uint>(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 1)));
  c.compute_units = std::max(1u, device_value<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS, 1));
  c.base_alignment = std::max(1u, device_value<cl_uint>(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 1024) / 8);
  c.max_work_group = std::max<size_t>(1, device_value<size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1));
  return c;
}

bool usable(cl_device_id id, std::string& why) {
  if (!device_value<cl_bool>(id, CL_DEVICE_AVAILABLE)) return why = "the driver says that it is not available", false;
  if (!device_value<cl_bool>(id, CL_DEVICE_COMPILER_AVAILABLE)) return why = "it has no compiler", false;
  if (!device_value<cl_bool>(id, CL_DEVICE_ENDIAN_LITTLE, CL_TRUE)) return why = "it is big-endian", false;
  return true;
}

}  // namespace ocl
