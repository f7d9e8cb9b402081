#include "opencl/memory/segment.h"

#include "opencl/memory/captured_segments.h"
#include "opencl/memory/host_memory.h"
#include "base/os.h"

#include <atomic>
#include <map>
#include <shared_mutex>
#include <stdexcept>

namespace ocl {

namespace {

struct Segment {
  Device* device;
  cl_mem buffer;
  char* mapping;  // start of the host range: slack, usable bytes, slack
  size_t mapping_bytes;
  char* base;
  size_t bytes;
  // captured_segments.h
  mutable std::atomic<bool> captured{false};  // by a list that is not complete
  mutable int lists = 0;                      // complete ones
};

struct AddressMap {
  std::shared_mutex mutex;
  std::map<const char*, Segment> segments;  // by mapping start
};

AddressMap& address_map() {
  static AddressMap* map = new AddressMap;  // leaked: frees at process exit must still find it
  return *map;
}

const Segment* find(const AddressMap& map, const char* address) {
  auto it = map.segments.upper_bound(address);
  if (it == map.segments.begin()) return nullptr;
  const Segment& segment = std::prev(it)->second;
  return address < segment.mapping + segment.mapping_bytes ? &segment : nullptr;
}

std::atomic<int> refusals{0};
std::atomic<int> captures{0};  // in progress

const Segment* find_and_mark(const AddressMap& map, const void* address) {
  const Segment* segment = find(map, static_cast<const char*>(address));
  if (segment && captures.load(std::memory_order_relaxed) > 0) [[unlikely]]
    segment->captured.store(true, std::memory_order_relaxed);
  return segment;
}

}  // namespace

void refuse_segments(int count) { refusals.store(count); }

void* allocate_segment(Device& device, size_t bytes) {
  if (refusals.load(std::memory_order_relaxed) > 0 && refusals.fetch_sub(1) > 0) [[unlikely]]
    throw OutOfMemory(CL_MEM_OBJECT_ALLOCATION_FAILURE, "a test refused " + std::to_string(bytes) + " bytes");
  const size_t page = os::page_size();
  const size_t lead = page;  // at least slack_bytes, keeps the base page-aligned
  const size_t total = (lead + bytes + slack_bytes + page - 1) / page * page;
  const bool unified = device.capabilities().unified_memory;
  char* mapping = static_cast<char*>(unified ? os::map_pages(total) : os::reserve_addresses(total));
  if (!mapping)
    throw OutOfMemory(CL_MEM_OBJECT_ALLOCATION_FAILURE,
                      "the operating system refused " + std::to_string(total) + " bytes of address space");
  cl_int code = CL_SUCCESS;
  cl_mem buffer = clCreateBuffer(device.context(), CL_MEM_READ_WRITE | (unified ? CL_MEM_USE_HOST_PTR : 0), total,
                                 unified ? mapping : nullptr, &code);
  if (code != CL_SUCCESS) {
    os::unmap(mapping, total);
    if (code == CL_INVALID_BUFFER_SIZE || code == CL_OUT_OF_RESOURCES || code == CL_OUT_OF_HOST_MEMORY)
      code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    throw_error(code, "clCreateBuffer");
  }
  AddressMap& map = address_map();
  std::unique_lock lock(map.mutex);
  Segment& segment = map.segments[mapping];
  segment.device = &device, segment.buffer = buffer;
  segment.mapping = mapping, segment.mapping_bytes = total;
  segment.base = mapping + lead, segment.bytes = bytes;
  return mapping + lead;
}

void free_segment(void* base) {
  AddressMap& map = address_map();
  decltype(map.segments)::node_type node;
  {
    std::unique_lock lock(map.mutex);
    const Segment* found = find(map, static_cast<const char*>(base));
    if (!found) throw InvalidArgument("free_segment: not the base of a segment");
    node = map.segments.extract(found->mapping);
  }
  const Segment& segment = node.mapped();
  report(clReleaseMemObject(segment.buffer), "clReleaseMemObject");
  os::unmap(segment.mapping, segment.mapping_bytes);
}

Location find_location(const void* address) noexcept {
  AddressMap& map = address_map();
  std::shared_lock lock(map.mutex);
  const Segment* segment = find_and_mark(map, address);
  if (!segment) return {};
  return {segment->buffer, static_cast<size_t>(static_cast<const char*>(address) - segment->mapping), segment->device};
}

namespace captured_segments {

void begin() { ++captures; }

std::vector<const void*> end() {
  std::vector<const void*> result;
  AddressMap& map = address_map();
  std::unique_lock lock(map.mutex);
  const bool last = --captures == 0;
  for (auto& [mapping, segment] : map.segments) {
    if (!segment.captured.load()) continue;
    ++segment.lists;
    result.push_back(segment.base);
    if (last) segment.captured.store(false);
  }
  return result;
}

void release(std::vector<const void*>& segments) {
  AddressMap& map = address_map();
  std::unique_lock lock(map.mutex);
  for (const void* base : segments)
    if (const Segment* segment = find(map, static_cast<const char*>(base))) --segment->lists;
  segments.clear();
}

bool in_use(const void* address) noexcept {
  AddressMap& map = address_map();
  std::shared_lock lock(map.mutex);
  const Segment* segment = find(map, static_cast<const char*>(address));
  return segment && (segment->lists > 0 || segment->captured.load(std::memory_order_relaxed));
}

}  // namespace captured_segments

Location locate(const void* address) {
  if (!address) return {};
  const Location location = find_location(address);
  if (!location.buffer) [[unlikely]]
    throw InvalidArgument("an address that is not in OpenCL device memory was given to a command");
  return location;
}

uint64_t unwritten_bytes(const Device& device) {
  if (!device.capabilities().unified_memory) return 0;  // the driver's pages
  AddressMap& map = address_map();
  std::shared_lock lock(map.mutex);
  uint64_t result = 0;
  for (const auto& [mapping, segment] : map.segments)
    if (segment.device == &device)
      result += segment.mapping_bytes - os::present_bytes(segment.mapping, segment.mapping_bytes);
  return result;
}

SegmentInfo find_segment(const void* address) noexcept {
  AddressMap& map = address_map();
  std::shared_lock lock(map.mutex);
  const Segment* segment = find_and_mark(map, address);
  return segment ? SegmentInfo{segment->device, segment->base, segment->bytes} : SegmentInfo{};
}

}  // namespace ocl
