#include "cpu/cpu_executor.h"

#include "base/os.h"
#include "opencl/part_executor.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <mutex>
#include <numeric>

namespace ocl {

// Compiled code that PoCL has loaded for a kernel and a local range.
//
// PoCL 3.1 keeps the 128 most recently used ones, and loads another one whenever a launch is wider than those before
// it. It releases one by kernel and local range alone, so when pieces that run at the same time use two of the same
// kernel, its reference counts go wrong and it aborts. Therefore a launch that may load code is not cut: if it is wider
// than those before it, or its code may have been unloaded. All narrower pieces then find its code. Launches that
// cannot be cut have code of their own, for offsets of zero. Devices that are parts of a CPU have kernels of their own,
// which PoCL takes for the same: where a process uses several, their launches are enqueued one at a time and not cut.
struct LoadedKernel {
  std::array<size_t, 3> local;
  bool divisible;
  size_t width = 0;  // of the widest launch; 0: not loaded
  LoadedKernel* next_of_kernel = nullptr;
  std::list<LoadedKernel*>::iterator place;
};

namespace {

// What the executor keeps with a kernel.
struct State final : Executor::KernelState {
  std::atomic<KernelFunction> function{nullptr};  // once it is there, the kernel is not enqueued and needs no mutex
  std::atomic<float> group_time{0};               // nanoseconds that a group of the last launch took
  LoadedKernel* loaded = nullptr;                 // what the driver has loaded, by local range; lives as long as PoCL
};

State& state_of(const Kernel& kernel) { return static_cast<State&>(*kernel.executor_state()); }

class LoadedKernels {
 public:
  // Whether pieces of this launch find loaded code; records it as the latest. Inside of commands only.
  bool find(Kernel& kernel, const std::array<size_t, 3>& local, bool divisible, size_t width) {
    LoadedKernel*& first = state_of(kernel).loaded;
    LoadedKernel* entry = first;
    while (entry && (entry->local != local || entry->divisible != divisible)) entry = entry->next_of_kernel;
    if (!entry) first = entry = new LoadedKernel{local, divisible, 0, first, {}};
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
    for (; recent_.size() > capacity; recent_.pop_back())
      if (recent_.back()) recent_.back()->width = 0;
    return false;
  }

 private:
  static constexpr size_t capacity = 112;  // of 128
  std::mutex mutex_;
  std::list<LoadedKernel*> recent_;  // the latest first
};

LoadedKernels& loaded_kernels() {
  static auto* kernels = new LoadedKernels;
  return *kernels;
}

}  // namespace

struct CpuExecutor::Launch {
  std::array<size_t, 3> local;
  size_t width;  // work-items, the most in one of the first two dimensions
  LaunchGrid grid;

  cl_int enqueue(cl_command_queue queue, cl_kernel kernel, size_t begin, size_t end) const {
    return grid.each_box(begin, end, [&](const LaunchGrid::Box& box) {
      const std::array<size_t, 3> offset = grid.offset(box),
                                  size{box.count[0] * local[0], box.count[1] * local[1], box.count[2] * local[2]};
      return clEnqueueNDRangeKernel(queue, kernel, 3, offset.data(), size.data(), local.data(), 0, nullptr, nullptr);
    });
  }
};

// The local range of launches without one: a multiple of the vector width, in the first dimension. The driver must not
// choose, because its choice depends on the size of a piece.
static std::array<size_t, 3> chosen_local(const Range& global) { return {std::gcd(global.size[0], size_t{64}), 1, 1}; }

// The most that a kernel may ask for, and room to align its arrays.
static size_t local_memory(cl_device_id device) {
  cl_ulong bytes = 0;
  check(clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof bytes, &bytes, nullptr), "clGetDeviceInfo");
  return bytes + (4 << 10);
}

CpuExecutor::CpuExecutor(HostDriver driver, cl_context context, cl_device_id device, ThreadPool& pool,
                         CommandQueue& commands, unsigned compute_units, bool part)
    : driver_(driver),
      context_(context),
      device_(device),
      pool_(pool),
      commands_(commands),
      part_(part),
      compute_units_(compute_units),
      memory_bytes_(local_memory(device)),
      queues_(new std::atomic<cl_command_queue>[pool_.workers() + 1]()) {}

// Executors that are parts of PoCL's device.
static std::atomic<int> parts_of_pocl{0};

// Held while a part enqueues on PoCL's driver (LoadedKernel).
std::unique_lock<std::mutex> CpuExecutor::one_part_at_a_time() const {
  static std::mutex mutex;
  return part_ && driver_ == HostDriver::basic ? std::unique_lock(mutex) : std::unique_lock<std::mutex>();
}

std::unique_ptr<Executor> make_executor(HostDriver driver, cl_context context, cl_device_id device) {
  ThreadPool& pool = ThreadPool::instance();
  return std::make_unique<CpuExecutor>(driver, context, device, pool, CommandQueue::instance(), pool.workers(), false);
}

std::unique_ptr<Executor> make_part_executor(HostDriver driver, cl_context context, cl_device_id device,
                                             const cpu_parts::Part& part, bool only_part, unsigned order) {
  if (driver == HostDriver::basic) ++parts_of_pocl;
  auto& pool = *new ThreadPool(part.threads + (only_part ? 0 : 1), part.processors);
  return std::make_unique<CpuExecutor>(driver, context, device, pool, *new CommandQueue(pool, order), part.threads,
                                       true);
}

unsigned executor_workers() { return ThreadPool::wanted(); }
void limit_executor_workers(unsigned workers) { ThreadPool::set_limit(workers); }
bool in_main_thread() { return ThreadPool::in_main_thread(); }

std::unique_ptr<Executor::KernelState> CpuExecutor::new_kernel_state() const { return std::make_unique<State>(); }

cl_command_queue CpuExecutor::queue_of(unsigned worker) {
  cl_command_queue queue = queues_[worker].load(std::memory_order_acquire);
  if (!queue) {
    cl_int code = CL_SUCCESS;
    queue = clCreateCommandQueue(context_, device_, queue_properties(), &code);
    if (code == CL_SUCCESS) queues_[worker].store(queue, std::memory_order_release);
  }
  return queue;
}

CpuExecutor::Launch CpuExecutor::launch_of(const Kernel& kernel, const Range& global, const Range& local_range) const {
  const std::array<size_t, 3> local = local_range.dimensions ? local_range.size : chosen_local(global);
  std::array<size_t, 3> groups;
  bool fits = local[0] * local[1] * local[2] <= kernel.device().capabilities().max_work_group;
  for (unsigned d = 0; d < 3; ++d) {
    fits = fits && local[d] != 0 && global.size[d] % local[d] == 0;
    groups[d] = global.size[d] / std::max<size_t>(local[d], 1);
  }
  if (!fits) [[unlikely]]
    throw_error(CL_INVALID_WORK_GROUP_SIZE, ("clEnqueueNDRangeKernel(" + kernel.name() + ")").c_str());
  return {local, std::max(global.size[0], global.size[1]), LaunchGrid(driver_, groups, pool_.workers())};
}

void CpuExecutor::issue(Queue& queue, const Arguments& arguments, const Range& global, const Range& local,
                        const Fusion& fusion) {
  Kernel& kernel = arguments.kernel();
  State& state = state_of(kernel);
  const Launch launch = launch_of(kernel, global, local);
  queue.host_command(
      *this, {Command::Kind::kernel, kernel.name().c_str()}, "clEnqueueNDRangeKernel",
      state.group_time * static_cast<float>(launch.grid.units()),
      [this, &queue, &kernel, launch, bytes = arguments.bytes()](const void* data) -> cl_int {
        return set_and_run(queue, kernel, data, bytes, launch, state_of(kernel).group_time);
      },
      arguments.data(), arguments.bytes(), fusion);
}

void CpuExecutor::run_fused(Queue& queue, const Arguments& arguments, const Range& global, const Range& local,
                            size_t fused) {
  Kernel& kernel = arguments.kernel();
  State& state = state_of(kernel);
  std::atomic<float> group_time{state.group_time * static_cast<float>(fused)};
  const cl_int code =
      set_and_run(queue, kernel, arguments.data(), arguments.bytes(), launch_of(kernel, global, local), group_time);
  if (code != CL_SUCCESS) [[unlikely]]
    queue.fail_later(code, "clEnqueueNDRangeKernel(" + kernel.name() + ")");
  state.group_time = group_time / static_cast<float>(fused);
}

KernelFunction CpuExecutor::function_of(const Kernel& kernel) { return state_of(kernel).function; }

void CpuExecutor::set_function(const Kernel& kernel, KernelFunction function) { state_of(kernel).function = function; }

void CpuExecutor::set_group_time(const Kernel& kernel, float time) {
  if (kernel.executor_state()) state_of(kernel).group_time = time;
}

// For callers that hold the kernel's mutex.
KernelFunction CpuExecutor::find_function(Kernel& kernel) {
  if (!kernel.address_kernel()) return nullptr;
  if (driver_ == HostDriver::basic) loaded_kernels().find(kernel, {1, 1, 1}, false, 1);
  const cl_command_queue queue = queue_of(0);
  if (!queue) throw_error(CL_OUT_OF_HOST_MEMORY, "clCreateCommandQueue");
  const auto lock = one_part_at_a_time();
  const KernelFunction function = kernel_function::find(kernel, queue);
  if (!function)
    throw DriverError(CL_INVALID_PROGRAM_EXECUTABLE,
                      "the compiled code of kernel " + kernel.name() +
                          " cannot be kept loaded; TORCH_OCL_CALL_KERNELS=0 has the driver "
                          "launch kernels instead of calling them");
  state_of(kernel).function = function;
  os::touch_constants(kernel.name() + "_address.so");  // what PoCL's loaded code is called
  return function;
}

cl_int CpuExecutor::call(KernelFunction function, const void* data, size_t bytes, const Launch& launch,
                         std::atomic<float>& group_time) {
  if (launch.local != std::array<size_t, 3>{1, 1, 1})
    return CL_INVALID_WORK_GROUP_SIZE;  // as its reqd_work_group_size says
  kernel_function::PackedArguments arguments;
  struct Context {
    KernelFunction function;
    const void* arguments;
    const LaunchGrid* grid;
    size_t memory;
  } context{function, arguments.pack(data, bytes), &launch.grid, memory_bytes_};
  return pool_.run(
      static_cast<uint32_t>(launch.grid.units()), group_time,
      [](void* pointer, unsigned, uint32_t begin, uint32_t end) -> int32_t {
        const auto& [function, arguments, grid, memory_bytes] = *static_cast<Context*>(pointer);
        KernelBox part;
        part.memory = kernel_function::thread_memory(memory_bytes);
        if (!part.memory) return CL_OUT_OF_HOST_MEMORY;
        return grid->each_box(begin, end, [&](const LaunchGrid::Box& box) {
          const auto& groups = grid->groups();
          for (unsigned d = 0; d < 3; ++d)
            part.begin[d] = box.begin[d], part.end[d] = box.begin[d] + box.count[d], part.count[d] = groups[d];
          function(nullptr, arguments, &part);
          return CL_SUCCESS;
        });
      },
      &context);
}

// Errors of the arguments are kept for the queue here, with a text of their own.
cl_int CpuExecutor::set_and_run(Queue& queue, Kernel& kernel, const void* data, size_t bytes, const Launch& launch,
                                std::atomic<float>& group_time) {
  if (const KernelFunction function = state_of(kernel).function) [[likely]]
    return call(function, data, bytes, launch, group_time);
  std::unique_lock lock(kernel.mutex());
  try {
    if (const KernelFunction function = find_function(kernel)) {
      lock.unlock();
      return call(function, data, bytes, launch, group_time);
    }
    kernel.handle();
  } catch (const DriverError& error) {  // it did not compile
    queue.fail_later(error.code(), error.what());
    return CL_SUCCESS;
  }
  unsigned index;
  if (const cl_int code = Arguments::set(kernel, data, bytes, index); code != CL_SUCCESS) [[unlikely]] {
    queue.fail_later(code, argument_text(kernel, index));
    return CL_SUCCESS;
  }
  return run(kernel, launch, group_time);
}

cl_int CpuExecutor::run(Kernel& kernel, const Launch& launch, std::atomic<float>& group_time) {
  const auto lock = one_part_at_a_time();
  if (lock && parts_of_pocl.load() > 1) return launch.enqueue(queue_of(0), kernel.handle(), 0, launch.grid.units());
  const bool loaded = driver_ != HostDriver::basic ||
                      loaded_kernels().find(kernel, launch.local, launch.grid.divisible(), launch.width);
  struct Context {
    CpuExecutor* self;
    cl_kernel kernel;
    const Launch* launch;
  } context{this, kernel.handle(), &launch};
  const ThreadPool::Piece piece = [](void* pointer, unsigned worker, uint32_t begin, uint32_t end) -> int32_t {
    const auto& [self, kernel, launch] = *static_cast<Context*>(pointer);
    const cl_command_queue queue = self->queue_of(worker);
    return queue ? launch->enqueue(queue, kernel, begin, end) : CL_OUT_OF_HOST_MEMORY;
  };
  if (!loaded || !launch.grid.divisible()) {
    const cl_int code = launch.enqueue(queue_of(0), context.kernel, 0, launch.grid.units());
    if (!loaded) os::touch_constants(kernel.name() + ".so");  // what PoCL's loaded code is called
    return code;
  }
  return pool_.run(static_cast<uint32_t>(launch.grid.units()), group_time, piece, &context);
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
  // Copies what is filled already, in parts that stay in the cache.
  for (size_t next; done < bytes; done += next) {
    next = std::min({done, bytes - done, size_t{8} << 10});
    std::memcpy(to + done, to, next);
  }
}

// Calls part(begin, end) for parts of [0, bytes), at the same time on several threads.
template <class Part>
void each_block(ThreadPool& pool, std::atomic<float>& block_time, size_t bytes, Part part) {
  if (bytes < 2 * block_bytes) return part(size_t{0}, bytes);
  struct Context {
    Part* part;
    size_t bytes;
  } context{&part, bytes};
  const size_t blocks = (bytes + block_bytes - 1) / block_bytes;
  pool.run(
      static_cast<uint32_t>(blocks), block_time,
      [](void* pointer, unsigned, uint32_t begin, uint32_t end) -> int32_t {
        const Context& c = *static_cast<Context*>(pointer);
        (*c.part)(begin* block_bytes, std::min(end * block_bytes, c.bytes));
        return CL_SUCCESS;
      },
      &context);
}

}  // namespace

void CpuExecutor::copy(void* destination, const void* source, size_t bytes) {
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(source);
  if (to < from + bytes && from < to + bytes)
    std::memmove(to, from, bytes);
  else
    each_block(pool_, copy_time_, bytes,
               [=](size_t begin, size_t end) { std::memcpy(to + begin, from + begin, end - begin); });
}

float CpuExecutor::copy_time(size_t bytes) const {
  const size_t blocks = bytes / block_bytes;  // what is less than one takes next to nothing
  return copy_time_.load() * static_cast<float>(blocks);
}

void CpuExecutor::fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) {
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(pattern);
  each_block(pool_, fill_time_, bytes,
             [=](size_t begin, size_t end) { fill_range(to + begin, from, pattern_bytes, end - begin); });
}

}  // namespace ocl
