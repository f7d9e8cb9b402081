#include "opencl/host_launch.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <numeric>

namespace ocl {

namespace {

// Groups along the cut dimension that a piece can name: its begin and the total are written into the three global offsets, 15 bits in
// the first two and 6 more in the third. No offset may reach 65535: PoCL compiles launches of fewer work-items for offsets below that.
constexpr size_t most_groups = size_t{1} << 21;

}  // namespace

// Compiled code that PoCL has loaded for a kernel and a local range. PoCL 3.1 keeps at most 128 of them, the most recently used, one for
// every new largest width of a launch, and gives one back by kernel and local range alone: when pieces at work use two of the same
// kernel, it counts wrongly and aborts. So a launch wider than those before it, or whose code may have been unloaded, is not cut: after
// it all narrower pieces find its code.
struct LoadedKernel {
  std::array<size_t, 3> local;
  size_t width = 0;  // of the widest launch; 0: not loaded
  LoadedKernel* next_of_kernel = nullptr;
  std::list<LoadedKernel*>::iterator place;
};

namespace {

class LoadedKernels {
 public:
  // Whether pieces of this launch find code that is loaded; takes note of it as the latest. The caller holds the kernel's lock.
  bool find(Kernel& kernel, const std::array<size_t, 3>& local, size_t width) {
    LoadedKernel* entry = kernel.loaded();
    while (entry && entry->local != local) entry = entry->next_of_kernel;
    if (!entry) kernel.loaded() = entry = new LoadedKernel{local, 0, kernel.loaded(), {}};
    std::lock_guard lock(mutex_);
    const bool found = entry->width >= width;
    if (found) {
      recent_.splice(recent_.begin(), recent_, entry->place);
      return true;
    }
    if (entry->width) *entry->place = nullptr;  // the narrower code stays until it is the oldest
    entry->width = width;
    recent_.push_front(entry);
    entry->place = recent_.begin();
    forget_oldest();
    return false;
  }

  // Takes note of `count` pieces of code that PoCL loads for itself and that no launch uses.
  void add_others(size_t count) {
    std::lock_guard lock(mutex_);
    recent_.insert(recent_.begin(), std::min(count, capacity), nullptr);
    forget_oldest();
  }

 private:
  void forget_oldest() {
    for (; recent_.size() > capacity; recent_.pop_back())
      if (recent_.back()) recent_.back()->width = 0;
  }

  static constexpr size_t capacity = 96;  // of 128
  std::mutex mutex_;
  std::list<LoadedKernel*> recent_;  // the latest first
};

LoadedKernels& loaded_kernels() {
  static auto* kernels = new LoadedKernels;
  return *kernels;
}

}  // namespace

void note_loaded_code(size_t count) { loaded_kernels().add_others(count); }

namespace {

struct Launch {
  cl_command_queue queue;
  cl_kernel kernel;
  std::array<size_t, 3> global, local;
  unsigned cut;
  size_t groups;
};

// As many work-items as are natural for vectors, in the first dimension, where the caller leaves the group to us. Not the driver's choice,
// which depends on the size of a piece.
std::array<size_t, 3> chosen_local(const Range& global) { return {std::gcd(global.size[0], size_t{64}), 1, 1}; }

// The outermost dimension with enough groups to share, so that a piece is a contiguous part of the launch.
unsigned cut_dimension(const std::array<size_t, 3>& groups, size_t enough) {
  for (unsigned d = 3; d-- > 0;)
    if (groups[d] >= enough) return d;
  return static_cast<unsigned>(std::max_element(groups.begin(), groups.end()) - groups.begin());
}

cl_int enqueue_piece(const Launch& launch, cl_command_queue queue, size_t begin, size_t end) {
  std::array<size_t, 3> global = launch.global;
  global[launch.cut] = (end - begin) * launch.local[launch.cut];
  const size_t offset[3] = {begin & 0x7fff, launch.groups & 0x7fff, (launch.cut + 1) | (begin >> 15) << 2 | (launch.groups >> 15) << 8};
  return clEnqueueNDRangeKernel(queue, launch.kernel, 3, offset, global.data(), launch.local.data(), 0, nullptr, nullptr);
}

}  // namespace

HostLaunch::HostLaunch(cl_context context, cl_device_id device)
    : context_(context), device_(device), team_(HostThreads::instance()), queues_(new std::atomic<cl_command_queue>[team_.members()]()) {}

cl_command_queue HostLaunch::queue_of(unsigned member) {
  cl_command_queue queue = queues_[member].load(std::memory_order_acquire);
  if (!queue) {
    cl_int code = CL_SUCCESS;
    queue = clCreateCommandQueue(context_, device_, 0, &code);
    if (code == CL_SUCCESS) queues_[member].store(queue, std::memory_order_release);
  }
  return queue;
}

cl_int HostLaunch::run(cl_command_queue queue, Kernel& kernel, const Range& global, const Range& local) {
  Launch launch{queue, kernel.handle(), global.size, local.dimensions ? local.size : chosen_local(global), 0, 0};
  std::array<size_t, 3> groups;
  for (unsigned d = 0; d < 3; ++d) {
    if (launch.local[d] == 0 || launch.global[d] % launch.local[d]) return CL_INVALID_WORK_GROUP_SIZE;
    groups[d] = launch.global[d] / launch.local[d];
  }
  launch.cut = cut_dimension(groups, size_t{4} * team_.members());
  launch.groups = groups[launch.cut];
  const bool loaded = loaded_kernels().find(kernel, launch.local, std::max(launch.global[0], launch.global[1]));
  if (launch.groups >= most_groups) {
    // Not expressible: as one piece, without a cut dimension.
    const size_t offset[3] = {0, 0, 4};
    return clEnqueueNDRangeKernel(queue, launch.kernel, 3, offset, launch.global.data(), launch.local.data(), 0, nullptr, nullptr);
  }
  if (!loaded) return enqueue_piece(launch, queue, 0, launch.groups);
  struct Context {
    HostLaunch* self;
    const Launch* launch;
  } context{this, &launch};
  return team_.run(
      static_cast<uint32_t>(launch.groups), kernel.group_time(),
      [](void* pointer, unsigned member, uint32_t begin, uint32_t end) -> int32_t {
        auto& [self, launch] = *static_cast<Context*>(pointer);
        const bool caller = member == 0 || member == self->team_.members();
        const cl_command_queue queue = caller ? launch->queue : self->queue_of(member);
        return queue ? enqueue_piece(*launch, queue, begin, end) : CL_OUT_OF_HOST_MEMORY;
      },
      &context);
}

namespace {

// What copies and fills are cut into; a multiple of every pattern's size.
constexpr size_t block_bytes = size_t{64} << 10;

void fill_range(char* to, const char* pattern, size_t pattern_bytes, size_t bytes) {
  if (std::all_of(pattern, pattern + pattern_bytes, [&](char c) { return c == pattern[0]; })) {
    std::memset(to, pattern[0], bytes);
    return;
  }
  size_t done = std::min(pattern_bytes, bytes);
  std::memcpy(to, pattern, done);
  // From what is filled already, as long as it stays in the cache.
  for (size_t next; done < bytes; done += next) {
    next = std::min({done, bytes - done, size_t{8} << 10});
    std::memcpy(to + done, to, next);
  }
}

// Calls part(begin, end) for parts of [0, bytes), at the same time on several threads.
template <class Part>
void each_block(HostThreads& team, std::atomic<float>& block_time, size_t bytes, Part part) {
  if (bytes < 2 * block_bytes) return part(size_t{0}, bytes);
  struct Context {
    Part* part;
    size_t bytes;
  } context{&part, bytes};
  const size_t blocks = (bytes + block_bytes - 1) / block_bytes;
  team.run(
      static_cast<uint32_t>(blocks), block_time,
      [](void* pointer, unsigned, uint32_t begin, uint32_t end) -> int32_t {
        const Context& c = *static_cast<Context*>(pointer);
        (*c.part)(begin * block_bytes, std::min(end * block_bytes, c.bytes));
        return CL_SUCCESS;
      },
      &context);
}

}  // namespace

void HostLaunch::copy(void* destination, const void* source, size_t bytes) {
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(source);
  if (to < from + bytes && from < to + bytes)
    std::memmove(to, from, bytes);
  else
    each_block(team_, copy_time_, bytes, [=](size_t begin, size_t end) { std::memcpy(to + begin, from + begin, end - begin); });
}

void HostLaunch::fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) {
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(pattern);
  each_block(team_, fill_time_, bytes, [=](size_t begin, size_t end) { fill_range(to + begin, from, pattern_bytes, end - begin); });
}

const char* HostLaunch::source() {
  return R"(
uint host_cut(void) { return (uint)(get_global_offset(2) & 3) - 1; }
size_t host_begin(void) { return get_global_offset(0) + ((get_global_offset(2) >> 2 & 63) << 15); }
size_t host_groups(void) { return get_global_offset(1) + ((get_global_offset(2) >> 8 & 63) << 15); }
size_t host_group_id(uint d) { return get_group_id(d) + (d == host_cut() ? host_begin() : 0); }
size_t host_num_groups(uint d) { return d == host_cut() ? host_groups() : get_num_groups(d); }
size_t host_global_id(uint d) { return host_group_id(d) * get_local_size(d) + get_local_id(d); }
size_t host_global_size(uint d) { return host_num_groups(d) * get_local_size(d); }
#define get_group_id(d) host_group_id(d)
#define get_num_groups(d) host_num_groups(d)
#define get_global_id(d) host_global_id(d)
#define get_global_size(d) host_global_size(d)
#define get_global_offset(d) ((size_t)0)
)";
}

}  // namespace ocl
