#include "torch/runtime/extension.h"

#include "opencl/launch.h"
#include "torch/runtime/device.h"

#include <c10/util/Exception.h>

namespace ocl::runtime {

namespace {

ocl::Range range_of(const extension::Range& range, const char* what) {
  TORCH_CHECK_VALUE(range.dimensions >= 0 && range.dimensions <= 3, what, " has ", range.dimensions,
                    " dimensions; OpenCL kernels have 1 to 3");
  ocl::Range result;
  result.dimensions = static_cast<unsigned>(range.dimensions);
  for (int i = 0; i < range.dimensions; ++i) result.size[static_cast<size_t>(i)] = range.size[static_cast<size_t>(i)];
  return result;
}

void launch(void* handle, const extension::Range& global, const extension::Range& local,
            const extension::Argument* arguments, size_t count) {
  Kernel& kernel = *static_cast<Kernel*>(handle);
  const ocl::Range items = range_of(global, "the global range"), group = range_of(local, "the local range");
  TORCH_CHECK_VALUE(items.dimensions > 0, "the global range of a kernel needs 1 to 3 dimensions");
  if (items.size[0] == 0 || items.size[1] == 0 || items.size[2] == 0) return;
  Queue& queue = current_queue(static_cast<c10::DeviceIndex>(kernel.device().index()));
  Arguments recorded(kernel);
  for (size_t i = 0; i < count; ++i) {
    const extension::Argument& argument = arguments[i];
    if (argument.kind == extension::Argument::address)
      recorded.add(argument.data);
    else if (argument.kind == extension::Argument::local)
      recorded.add(LocalMemory{argument.bytes});
    else
      recorded.add_value(argument.data, argument.bytes);
  }
  enqueue(queue, recorded, items, group);
}

constexpr extension::Interface interface = {
    .version = 1,
    .context = [](int i) { return device(static_cast<c10::DeviceIndex>(i)).context(); },
    .device_id = [](int i) { return device(static_cast<c10::DeviceIndex>(i)).id(); },
    .queue = [](int i) { return current_queue(static_cast<c10::DeviceIndex>(i)).share_handle(); },
    .issued = [](int i) { current_queue(static_cast<c10::DeviceIndex>(i)).issued(); },
    .locate =
        [](const void* address) {
          const Location location = locate(address);
          return extension::Buffer{location.buffer, location.offset};
        },
    .kernel = [](int i, const char* name, const char* source) -> void* {
      return &get_kernel_from_source(device(static_cast<c10::DeviceIndex>(i)), name, source);
    },
    .launch = launch,
};

}  // namespace

}  // namespace ocl::runtime

const ocl::extension::Interface* torch_ocl_extension() { return &ocl::runtime::interface; }
