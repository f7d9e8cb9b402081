#include "opencl/device.h"

#include "opencl/memory/caching_allocator.h"
#include "base/environment.h"
#include "base/injected_faults.h"
#include "base/warning.h"
#include "opencl/capabilities/probes.h"
#include "opencl/capabilities/query.h"
#include "opencl/capabilities/simulated.h"
#include "opencl/device_list.h"
#include "opencl/launch.h"
#include "opencl/part_executor.h"
#include "opencl/program/compiler_process.h"
#include "opencl/program/kept_answers.h"
#include "opencl/program/program_cache.h"
#include "base/os.h"
#include "base/processors.h"
#include "opencl/queue.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace ocl {

namespace {

// Memory of the host, which its control groups may give this process only in part. Drivers do not know the groups. And
// PoCL reports the first NUMA node's memory, of which a virtual machine may have plugged in a part so far: buffers that
// are the host's pages have all of it.
void limit_memory(Capabilities& c) {
  if (!c.is_cpu && !c.unified_memory) return;
  const uint64_t total = processors::memory().total;
  if (total == 0) return;
  const bool own_pages = c.is_cpu && c.unified_memory && !std::getenv("POCL_MEMORY_LIMIT");
  c.global_memory = own_pages ? total : std::min<uint64_t>(c.global_memory, total);
  c.max_allocation = std::min<uint64_t>(c.max_allocation, c.global_memory);
}

// Write by the host, run a kernel, read by the host, at two offsets and without mapping: the behaviour that OpenCL does
// not promise for CL_MEM_USE_HOST_PTR and that CPU runtimes and integrated GPUs have. `by_address`: the kernel gets the
// address.
bool shares_memory(Device& device, bool by_address) {
  constexpr size_t bytes = 1 << 16, count = bytes / 4;
  auto* host = static_cast<int32_t*>(os::map_pages(bytes));
  if (!host) return false;
  bool shared = false;
  cl_int code = CL_SUCCESS;
  cl_mem buffer = clCreateBuffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, host, &code);
  if (code == CL_SUCCESS) {
    try {
      Queue queue(device, -1);
      Kernel& kernel = get_kernel(device, "selftest/selftest.cl", "add_one", Defines());
      shared = true;
      for (int round = 0; round < 2 && shared; ++round) {
        for (size_t i = 0; i < count; ++i) host[i] = static_cast<int32_t>(i * 3 + round);
        const cl_ulong offset = round ? 4096 + 4 : 0;
        const cl_int n = static_cast<cl_int>(count - offset / 4);
        Arguments arguments(kernel);
        if (by_address)
          arguments.add_address(host);
        else
          arguments.add_value(&buffer, sizeof(cl_mem));
        arguments.add(offset);
        arguments.add(n);
        enqueue(queue, arguments, Range(64), Range());
        queue.finish();
        for (size_t i = 0; i < count && shared; ++i)
          shared = host[i] == static_cast<int32_t>(i * 3 + round) + (i >= offset / 4 ? 1 : 0);
      }
      if (!shared && device.capabilities().is_cpu)
        warn("the driver of " + device.capabilities().name + " (" + device.capabilities().platform_name +
             ") does not keep the results of kernels in memory that it was given" +
             (by_address ? " by address: kernels are given buffers instead" : ": all data is copied to it and back"));
      clReleaseCommandQueue(queue.handle());
    } catch (const DriverError&) {
      shared = false;
    }
    clReleaseMemObject(buffer);
  }
  os::unmap(host, bytes);
  return shared;
}

struct Registry {
  std::vector<FoundDevice> found;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<std::once_flag>> opened;
  std::vector<std::string> problems;

  Registry() {
    try {
      found = find_devices(problems);
    } catch (const std::exception& error) {
      problems.push_back(error.what());
    }
    devices.resize(found.size());
    for (size_t i = 0; i < found.size(); ++i) opened.push_back(std::make_unique<std::once_flag>());
  }

  // Whether this process uses this part of a CPU and no other: it sees no other, or it is a local rank, each of which
  // has one.
  bool only_part(const FoundDevice& f) const {
    if (!f.part) return false;
    const processors::Facts& facts = processors::facts();
    const auto parts = std::count_if(found.begin(), found.end(), [](const FoundDevice& each) { return each.part; });
    return parts == 1 || (facts.ranks > 1 && facts.rank % f.part->count == f.part->index);
  }
};

Registry& registry() {
  static Registry* instance = new Registry;
  return *instance;
}

}  // namespace

int Device::count() noexcept {
  try {
    return static_cast<int>(registry().found.size());
  } catch (...) {
    return 0;
  }
}

const std::vector<std::string>& Device::problems() { return registry().problems; }

Device& Device::get(int index) {
  Registry& r = registry();
  if (os::in_forked_child()) [[unlikely]]
    throw Unsupported(error_words().forked);
  if (index < 0 || static_cast<size_t>(index) >= r.found.size()) [[unlikely]] {
    if (r.found.empty())
      throw InvalidDevice(
          std::string("No OpenCL device is available. Install an OpenCL driver: your GPU vendor's, or for the CPU `apt "
                      "install pocl-opencl-icd` or `pip install intel-opencl-rt`; then `") +
          error_words().list_devices + "` shows what is found.");
    throw InvalidDevice("invalid device ordinal: ocl:" + std::to_string(index) + " was asked for, " +
                        std::to_string(r.found.size()) + " device(s) are visible");
  }
  std::call_once(*r.opened[index], [&] {
    const FoundDevice& f = r.found[index];
    r.devices[index] = std::make_unique<Device>(index, f.platform, f.id, f.host_driver, f.familiar);
  });
  return *r.devices[index];
}

Device::~Device() = default;

static std::string guard_key(const Device& device) { return program_cache::key(device, "guarded", ""); }

static std::atomic<void (*)()> guard_observer{nullptr};

void Device::on_guard(void (*observer)()) { guard_observer.store(observer); }

void Device::guard(const std::string& why) {
  kept_answers::keep(guard_key(*this), why);
  if (!guarded_.exchange(true) && guard_observer.load()) guard_observer.load()();
}

// Also what the self-tests of this process's device are built by.
void Device::open_elsewhere(bool familiar) {
  probes_ = std::make_unique<Probes>(*this);
  if (CompilerProcess::inside() || !CompilerProcess::exists() || environment::word("TORCH_OCL_PROBES", "") == "here")
    return;
  const auto known = kept_answers::get(guard_key(*this));
  if (familiar && !known) return;
  if (!probes_->passed(Probe::opens))
    throw Unsupported("The driver of " + capabilities_.name + " (" + capabilities_.platform_name + " " +
                      capabilities_.driver_version +
                      ") ended the process in which it was tried. TORCH_OCL_VISIBLE_DEVICES leaves devices out.");
  guard(known.value_or("this driver is not known"));
}

const cpu_parts::Part* part_of(const Device& device) { return registry().found[device.index()].part; }
unsigned order_of(const Device& device) { return part_of(device) ? static_cast<unsigned>(device.index()) + 1 : 0; }

// Of a part that is the only one of this process: the calling thread, and those that it starts, are bound to it.
static std::unique_ptr<Executor> open_executor(const Device& device, HostDriver driver) {
  const FoundDevice& found = registry().found[device.index()];
  if (!found.part) return make_executor(driver, device.context(), device.id());
  const bool only_part = registry().only_part(found);
  if (only_part) os::bind_thread(found.part->processors);
  return make_part_executor(driver, device.context(), device.id(), *found.part, only_part, order_of(device));
}

Device::Device(int index, cl_platform_id platform, cl_device_id id, HostDriver host_driver, bool familiar)
    : index_(index), platform_(platform), id_(id) {
  capabilities_ = query_capabilities(platform, id);
  style_ = capabilities_.is_cpu ? KernelStyle::cpu : KernelStyle::gpu;
  if (const std::string forced = environment::word("TORCH_OCL_KERNEL_STYLE", ""); !forced.empty())
    style_ = forced == "gpu" ? KernelStyle::gpu : KernelStyle::cpu;
  open_elsewhere(familiar);
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(platform),
                                              0};
  cl_int code = CL_SUCCESS;
  context_ = clCreateContext(properties, 1, &id_, nullptr, nullptr, &code);
  check(code, "clCreateContext");
  if (host_driver != HostDriver::none) {
    executor_ = open_executor(*this, host_driver);
    capabilities_.compute_units = executor_->workers();
  }
  capabilities_ = simulate_by_environment(std::move(capabilities_));
  std::unique_ptr<Executor::FunctionTest> functions;
  if (executor_ && cpu_style()) functions = executor_->start_function_test(*this);
  // Another process has tested the memory, and waits for the answer about functions.
  const bool only_functions = environment::word("TORCH_OCL_CALL_KERNELS", "") == "only";
  capabilities_.unified_memory =
      environment::flag("TORCH_OCL_UNIFIED_MEMORY", true) && (only_functions || shares_memory(*this, false));
  takes_addresses_ = executor_ && capabilities_.unified_memory && (only_functions || shares_memory(*this, true));
  calls_kernels_ = takes_addresses_ && functions;
  calls_kernels_ = calls_kernels_ && functions->passed(*this);
  limit_memory(capabilities_);
  allocator_ = std::make_unique<CachingAllocator>(*this);
  default_queue_ = &new_queue();
}

Queue& Device::new_queue() {
  std::lock_guard lock(queues_mutex_);
  queues_.push_back(std::make_unique<Queue>(*this, static_cast<int>(queues_.size())));
  return *queues_.back();
}

Queue& Device::queue(int id) {
  if (id == 0) return *default_queue_;
  std::lock_guard lock(queues_mutex_);
  return *queues_.at(static_cast<size_t>(id));
}

Queue& Device::pooled_queue() {
  std::unique_lock lock(queues_mutex_);
  const int id = 1 + next_pooled_++ % pool_size;
  if (static_cast<size_t>(id) < queues_.size()) return *queues_[id];
  lock.unlock();
  return new_queue();
}

void Device::synchronize() {
  for (size_t i = 0;; ++i) {
    std::unique_lock lock(queues_mutex_);
    if (i >= queues_.size()) return;
    Queue& queue = *queues_[i];  // never destroyed
    lock.unlock();
    if (!queue.capture()) queue.finish();  // a queue that captures has nothing to do
  }
}

}  // namespace ocl
