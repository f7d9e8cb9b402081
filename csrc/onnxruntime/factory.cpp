// What ONNX Runtime loads: CreateEpFactories, ReleaseEpFactory, and the list of devices.
#include "onnxruntime/memory.h"
#include "onnxruntime/provider.h"

#include <memory>
#include <string>

namespace ocl::ort {

namespace {

struct Factory : OrtEpFactory {};

constexpr const char* index_key = "ocl_device";  // in the metadata of a device

const char* ORT_API_CALL get_name(const OrtEpFactory*) noexcept { return provider_name; }
const char* ORT_API_CALL get_vendor(const OrtEpFactory*) noexcept { return "torch-ocl"; }
const char* ORT_API_CALL get_version(const OrtEpFactory*) noexcept { return OCL_PROVIDER_VERSION; }
uint32_t ORT_API_CALL get_vendor_id(const OrtEpFactory*) noexcept { return vendor_id; }
bool ORT_API_CALL is_stream_aware(const OrtEpFactory*) noexcept { return false; }

// The piece of hardware that ONNX Runtime lists an OpenCL device under: one of its kind; the CPU, which there is
// always, where ONNX Runtime does not know the GPU.
const OrtHardwareDevice* hardware_of(const Device& device, const OrtHardwareDevice* const* all, size_t count) {
  const auto first = [&](OrtHardwareDeviceType type) -> const OrtHardwareDevice* {
    for (size_t i = 0; i < count; ++i)
      if (api->HardwareDevice_Type(all[i]) == type) return all[i];
    return nullptr;
  };
  const bool gpu = device.capabilities().is_gpu;
  const OrtHardwareDevice* found = gpu ? first(OrtHardwareDeviceType_GPU) : nullptr;
  return found ? found : first(OrtHardwareDeviceType_CPU);
}

OrtEpDevice* list_device(OrtEpFactory* factory, const Device& device, const OrtHardwareDevice* hardware) {
  OrtKeyValuePairs* pairs = nullptr;
  api->CreateKeyValuePairs(&pairs);
  const std::unique_ptr<OrtKeyValuePairs, void (*)(OrtKeyValuePairs*)> metadata(
      pairs, [](OrtKeyValuePairs* p) { api->ReleaseKeyValuePairs(p); });
  api->AddKeyValuePair(pairs, index_key, std::to_string(device.index()).c_str());
  api->AddKeyValuePair(pairs, "ocl_name", device.capabilities().name.c_str());
  api->AddKeyValuePair(pairs, "ocl_platform", device.capabilities().platform_name.c_str());
  OrtEpDevice* listed = nullptr;
  check(ep_api->CreateEpDevice(factory, hardware, pairs, nullptr, &listed));
  check(ep_api->EpDevice_AddAllocatorInfo(listed, memory_info(device)));
  return listed;
}

OrtStatus* ORT_API_CALL get_devices(OrtEpFactory* factory, const OrtHardwareDevice* const* hardware, size_t count,
                                    OrtEpDevice** listed, size_t room, size_t* listed_count) noexcept {
  return guarded([&] {
    *listed_count = 0;
    for (int i = 0; i < Device::count() && *listed_count < room; ++i) {
      const Device& device = Device::get(i);
      if (const OrtHardwareDevice* under = hardware_of(device, hardware, count))
        listed[(*listed_count)++] = list_device(factory, device, under);
    }
  });
}

OrtStatus* ORT_API_CALL create_provider(OrtEpFactory*, const OrtHardwareDevice* const*,
                                        const OrtKeyValuePairs* const* metadata, size_t count, const OrtSessionOptions*,
                                        const OrtLogger* logger, OrtEp** provider) noexcept {
  return guarded([&] {
    if (count != 1) throw InvalidArgument("a session takes one OpenCL device, not " + std::to_string(count));
    const char* index = api->GetKeyValue(metadata[0], index_key);
    if (!index) throw InvalidArgument("the device is none of this library's");
    *provider = make_provider(Device::get(std::stoi(index)), logger);
  });
}

void ORT_API_CALL release_provider_of(OrtEpFactory*, OrtEp* provider) noexcept { release_provider(provider); }

OrtStatus* ORT_API_CALL create_allocator(OrtEpFactory*, const OrtMemoryInfo* info, const OrtKeyValuePairs*,
                                         OrtAllocator** allocator) noexcept {
  return guarded([&] { *allocator = make_allocator(info); });
}

void ORT_API_CALL release_allocator_of(OrtEpFactory*, OrtAllocator* allocator) noexcept {
  release_allocator(allocator);
}

OrtStatus* ORT_API_CALL create_data_transfer(OrtEpFactory*, OrtDataTransferImpl** transfer) noexcept {
  return guarded([&] { *transfer = make_data_transfer(); });
}

OrtStatus* ORT_API_CALL create_stream(OrtEpFactory*, const OrtMemoryDevice*, const OrtKeyValuePairs*,
                                      OrtSyncStreamImpl** stream) noexcept {
  *stream = nullptr;
  return nullptr;
}

OrtStatus* ORT_API_CALL validate(OrtEpFactory*, const OrtHardwareDevice* const*, size_t, const char*,
                                 OrtCompiledModelCompatibility* compatibility) noexcept {
  *compatibility = OrtCompiledModelCompatibility_EP_NOT_APPLICABLE;  // no model is kept compiled
  return nullptr;
}

}  // namespace

OrtEpFactory* make_factory() {
  auto factory = std::make_unique<Factory>();
  factory->ort_version_supported = api_version;
  factory->GetName = get_name;
  factory->GetVendor = get_vendor;
  factory->GetVendorId = get_vendor_id;
  factory->GetVersion = get_version;
  factory->GetSupportedDevices = get_devices;
  factory->CreateEp = create_provider;
  factory->ReleaseEp = release_provider_of;
  factory->ValidateCompiledModelCompatibilityInfo = validate;
  factory->CreateAllocator = create_allocator;
  factory->ReleaseAllocator = release_allocator_of;
  factory->CreateDataTransfer = create_data_transfer;
  factory->IsStreamAware = is_stream_aware;
  factory->CreateSyncStreamForDevice = create_stream;
  return factory.release();
}

}  // namespace ocl::ort

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*, OrtEpFactory** factories,
                                      size_t room, size_t* count) {
  using namespace ocl::ort;
  *count = 0;
  api = base->GetApi(api_version);
  if (!api) {  // a status needs the interface as well: the oldest that makes one serves
    const OrtApi* old = base->GetApi(1);
    return old ? old->CreateStatus(ORT_FAIL, "the OpenCL execution provider needs ONNX Runtime 1.23 or later")
               : nullptr;
  }
  ep_api = api->GetEpApi();
  return guarded([&] {
    if (room < 1) throw ocl::InvalidArgument("no room for a factory");
    factories[0] = make_factory();
    *count = 1;
  });
}

EXPORTED OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<ocl::ort::Factory*>(factory);
  return nullptr;
}
