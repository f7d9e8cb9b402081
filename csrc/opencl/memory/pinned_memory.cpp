#include "opencl/memory/pinned_memory.h"

#include "base/os.h"
#include "opencl/queue.h"

#include <map>
#include <shared_mutex>

namespace ocl {

namespace {

struct Pinned {
  size_t bytes;
  Device* device;
  cl_mem buffer;  // null: plain pages
};

struct Table {
  std::shared_mutex mutex;
  std::map<const char*, Pinned> blocks;
};

Table& table() {
  static Table* instance = new Table;
  return *instance;
}

}  // namespace

void* allocate_pinned(Device& device, size_t bytes) {
  Pinned block{bytes, &device, nullptr};
  void* address = nullptr;
  if (device.capabilities().unified_memory) {
    address = os::map_pages(bytes);
    if (!address)
      throw OutOfMemory(CL_OUT_OF_HOST_MEMORY,
                        "the operating system refused " + std::to_string(bytes) + " bytes of pinned memory");
  } else {
    cl_int code = CL_SUCCESS;
    block.buffer = clCreateBuffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, nullptr, &code);
    check(code, "clCreateBuffer");
    address = clEnqueueMapBuffer(device.default_queue().handle(), block.buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                 bytes, 0, nullptr, nullptr, &code);
    check(code, "clEnqueueMapBuffer");
  }
  std::unique_lock lock(table().mutex);
  table().blocks[static_cast<const char*>(address)] = block;
  return address;
}

void free_pinned(void* address) {
  Pinned block;
  {
    std::unique_lock lock(table().mutex);
    auto it = table().blocks.find(static_cast<const char*>(address));
    if (it == table().blocks.end()) return;
    block = it->second;
    table().blocks.erase(it);
  }
  if (!block.buffer) {
    os::unmap(address, block.bytes);
    return;
  }
  report(clEnqueueUnmapMemObject(block.device->default_queue().handle(), block.buffer, address, 0, nullptr, nullptr),
         "clEnqueueUnmapMemObject");
  report(clReleaseMemObject(block.buffer), "clReleaseMemObject");
}

bool is_pinned(const void* address) noexcept {
  const char* p = static_cast<const char*>(address);
  std::shared_lock lock(table().mutex);
  auto it = table().blocks.upper_bound(p);
  if (it == table().blocks.begin()) return false;
  --it;
  return p < it->first + it->second.bytes;
}

}  // namespace ocl
