// What ATen asks of an accelerator outside of operators.
#include "opencl/memory/pinned_memory.h"
#include "opencl/memory/segment.h"
#include "ops/core/type_error.h"
#include "torch/runtime/generator.h"

#include <ATen/CPUFunctions.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

namespace ocl::runtime {

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return index >= 0 && index < device_count(); }
  c10::DeviceIndex deviceCount() const override { return device_count(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_device(index); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { return exchange_device(index); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 || index >= device_count() ? current_device() : exchange_device(index);
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return at::getHostAllocator(at::kPrivateUse1); }
  at::Device getDeviceFromPtr(void* data) const override {
    const SegmentInfo segment = find_segment(data);
    TORCH_CHECK(segment.device, "the pointer is not in OpenCL device memory");
    return {device_type, static_cast<c10::DeviceIndex>(segment.device->index())};
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    check_index(index);
    return at::make_generator<Generator>(index < 0 ? current_device() : index);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::StorageImpl* implementation = storage.unsafeGetStorageImpl();
    TORCH_CHECK(implementation->resizable(), "Trying to resize storage that is not resizable");
    const c10::DeviceIndex index = implementation->device().index();
    const c10::DeviceIndex previous = exchange_device(index);
    c10::DataPtr data = implementation->allocator()->allocate(bytes);
    const size_t kept = std::min(bytes, static_cast<size_t>(implementation->nbytes()));
    if (kept) current_queue(index).copy(data.get(), implementation->data(), kept);
    exchange_device(previous);
    implementation->set_data_ptr_noswap(std::move(data));
    implementation->set_nbytes(bytes);
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  ops::throw_type_errors_by([](const std::string& message) { TORCH_CHECK_NOT_IMPLEMENTED(false, message); });
  return true;
}();

}  // namespace

}  // namespace ocl::runtime
