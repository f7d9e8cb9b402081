#include "onnxruntime/memory.h"

#include "onnxruntime/graph.h"
#include "opencl/memory/caching_allocator.h"
#include "opencl/memory/segment.h"
#include "ops/core/device_errors.h"

#include <cstring>

namespace ocl::ort {

const OrtMemoryInfo* memory_info(const Device& device) {
  static std::mutex mutex;
  static std::map<int, OrtMemoryInfo*> infos;
  const std::lock_guard lock(mutex);
  OrtMemoryInfo*& info = infos[device.index()];
  // "GPU" is what ONNX Runtime calls memory that its own operators do not read.
  if (!info)
    check(api->CreateMemoryInfo_V2("ocl", OrtMemoryInfoDeviceType_GPU, vendor_id, device.index(),
                                   OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator, &info));
  return info;
}

namespace {

struct Allocator : OrtAllocator {
  Device* device = nullptr;
};

void* ORT_API_CALL allocate(OrtAllocator* allocator, size_t bytes) noexcept {
  Device& device = *static_cast<Allocator*>(allocator)->device;
  try {
    return bytes ? device.allocator().allocate(bytes, device.default_queue()) : nullptr;
  } catch (const std::exception&) {
    return nullptr;  // ONNX Runtime reports it
  }
}

void ORT_API_CALL release(OrtAllocator* allocator, void* data) noexcept {
  if (data) static_cast<Allocator*>(allocator)->device->allocator().free(data);
}

const OrtMemoryInfo* ORT_API_CALL info_of(const OrtAllocator* allocator) noexcept {
  return memory_info(*static_cast<const Allocator*>(allocator)->device);
}

struct DataTransfer : OrtDataTransferImpl {};

bool is_ours(const OrtMemoryDevice* memory) {
  return ep_api->MemoryDevice_GetVendorId(memory) == vendor_id &&
         ep_api->MemoryDevice_GetDeviceType(memory) == OrtMemoryInfoDeviceType_GPU;
}

bool is_host(const OrtMemoryDevice* memory) {
  return ep_api->MemoryDevice_GetDeviceType(memory) == OrtMemoryInfoDeviceType_CPU;
}

bool ORT_API_CALL can_copy(const OrtDataTransferImpl*, const OrtMemoryDevice* from,
                           const OrtMemoryDevice* to) noexcept {
  return (is_ours(from) && (is_ours(to) || is_host(to))) || (is_host(from) && is_ours(to));
}

void copy_tensor(const OrtValue* from, OrtValue* to) {
  size_t bytes = 0;
  check(api->GetTensorSizeInBytes(from, &bytes));
  if (!bytes) return;
  const void* source = nullptr;
  void* target = nullptr;
  check(api->GetTensorData(from, &source));
  check(api->GetTensorMutableData(to, &target));
  Device* const source_device = find_segment(source).device;
  Device* const target_device = find_segment(target).device;
  if (source_device && target_device && source_device != target_device) {
    std::vector<std::byte> staging(bytes);
    source_device->default_queue().read(staging.data(), source, bytes);
    target_device->default_queue().write(target, staging.data(), bytes);
  } else if (target_device && source_device) {
    target_device->default_queue().copy(target, source, bytes);
    target_device->default_queue().finish();
  } else if (target_device) {
    target_device->default_queue().write(target, source, bytes);
  } else if (source_device) {
    source_device->default_queue().read(target, source, bytes);
  } else {
    std::memcpy(target, source, bytes);
  }
}

OrtStatus* ORT_API_CALL copy_tensors(OrtDataTransferImpl*, const OrtValue** from, OrtValue** to, OrtSyncStream**,
                                     size_t count) noexcept {
  return guarded([&] {
    for (size_t i = 0; i < count; ++i) copy_tensor(from[i], to[i]);
  });
}

void ORT_API_CALL release_transfer(OrtDataTransferImpl* transfer) noexcept {
  delete static_cast<DataTransfer*>(transfer);
}

}  // namespace

OrtAllocator* make_allocator(const OrtMemoryInfo* info) {
  int index = 0;
  if (info) check(api->MemoryInfoGetId(info, &index));
  auto allocator = std::make_unique<Allocator>();
  allocator->version = api_version;
  allocator->Alloc = allocate;
  allocator->Free = release;
  allocator->Info = info_of;
  allocator->Reserve = allocate;
  allocator->device = &Device::get(index);
  return allocator.release();
}

void release_allocator(OrtAllocator* allocator) noexcept { delete static_cast<Allocator*>(allocator); }

OrtDataTransferImpl* make_data_transfer() {
  auto transfer = std::make_unique<DataTransfer>();
  transfer->ort_version_supported = api_version;
  transfer->Release = release_transfer;
  transfer->CanCopy = can_copy;
  transfer->CopyTensors = copy_tensors;
  return transfer.release();
}

}  // namespace ocl::ort
