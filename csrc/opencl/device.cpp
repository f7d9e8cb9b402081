#include "opencl/device.h"

#include "opencl/memory/caching_allocator.h"
#include "base/environment.h"
#include "base/injected_faults.h"
#include "base/warning.h"
#include "opencl/capabilities/probes.h"
#include "opencl/capabilities/query.h"
#include "opencl/capabilities/simulated.h"
#include "opencl/launch.h"
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

struct Found {
  cl_platform_id platform;
  cl_device_id id;
  std::string label;  // platform name and version ("OpenCL 3.0 PoCL 3.1"), device name
  bool gpu;
  HostDriver host_driver;
  bool familiar;  // see Device
};

bool host_threads_wanted() { return executor_workers() > 0 && environment::flag("TORCH_OCL_UNIFIED_MEMORY", true); }

// An environment variable for drivers, which read it once, when their devices are first asked for. Not where the user
// has set it; child processes do not see it.
class DriverVariable {
 public:
  DriverVariable(const char* name, const char* value, bool wanted) : name_(name), asked_(wanted && !std::getenv(name)) {
    if (asked_) os::set_environment(name, value);
  }
  ~DriverVariable() {
    if (asked_) os::set_environment(name_, nullptr);
  }
  DriverVariable(const DriverVariable&) = delete;
  bool asked() const { return asked_; }

 private:
  const char* name_;
  bool asked_;
};

// What drivers are asked for. PoCL: its driver without threads beside the usual one, which stays the first for others
// in the process; and libraries of compiled code, which can be kept loaded (from version 7.2 on it has a JIT compiler
// instead, which unloads a kernel's code when it has loaded 128 others). Intel's runtime for CPUs: more local memory
// than its 256 KiB, which it takes from the heap; tiles of Winograd's convolutions do not fit into that. Both, where
// several ranks share the machine: no more threads of their own than this rank's share.
struct DriverVariables {
  const unsigned threads = processors::drivers_share();
  const std::string threads_text = std::to_string(threads);
  DriverVariable pocl_threads{"POCL_MAX_PTHREAD_COUNT", threads_text.c_str(), threads > 0};
  DriverVariable newer_pocl_threads{"POCL_CPU_MAX_CU_COUNT", threads_text.c_str(), threads > 0};
  DriverVariable intel_threads{"CL_CONFIG_CPU_TBB_NUM_WORKERS", threads_text.c_str(), threads > 0};
  DriverVariable pocl_drivers{"POCL_DEVICES", "pthread basic", host_threads_wanted()};
  DriverVariable pocl_loader{"POCL_CPU_JIT", "0", host_threads_wanted()};
  // PoCL has no device where it cannot make its cache: a home that is read-only, or a plain user of a container without
  // one. Without HOME it takes a folder that all users of the machine share.
  const std::string cache = os::temporary_cache_folder();
  const bool homeless = os::user_cache_folder() == cache && os::others_keep_off(cache);
  DriverVariable pocl_cache{"POCL_CACHE_DIR", (cache + "/pocl").c_str(), homeless};
  DriverVariable intel_local_memory{"CL_CONFIG_CPU_FORCE_LOCAL_MEM_SIZE", "1MB", true};

  // Whether the device is of PoCL's driver without threads; not, for example, when somebody has used PoCL before us.
  bool without_threads(const std::string& platform, const std::string& device) const {
    return pocl_drivers.asked() && platform == "Portable Computing Language" &&
           (device.rfind("basic", 0) == 0 || device.rfind("cpu-minimal", 0) == 0);
  }
};

bool executes_by_local_thread(cl_device_id id, bool gpu) {
  const std::string extensions = " " + device_string(id, CL_DEVICE_EXTENSIONS) + " ";
  return !gpu && extensions.find(" cl_intel_exec_by_local_thread ") != std::string::npos;
}

HostDriver host_driver(const DriverVariables& variables, const std::string& platform, cl_device_id id, bool gpu) {
  if (variables.without_threads(platform, device_string(id, CL_DEVICE_NAME))) return HostDriver::basic;
  return executes_by_local_thread(id, gpu) && host_threads_wanted() ? HostDriver::local_thread : HostDriver::none;
}

// The drivers that the CPU executor is made for, whether or not it is wanted. Their compilers report errors.
bool is_familiar(const std::string& platform, cl_device_id id, bool gpu) {
  const bool made_for = (!gpu && platform == "Portable Computing Language") || executes_by_local_thread(id, gpu);
  return made_for && !injected_faults::has("unfamiliar");
}

struct Registry {
  std::vector<Found> found;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<std::once_flag>> opened;
  std::vector<std::string> problems;

  Registry() {
    try {
      discover();
    } catch (const std::exception& error) {
      problems.push_back(error.what());
    }
    devices.resize(found.size());
    for (size_t i = 0; i < found.size(); ++i) opened.push_back(std::make_unique<std::once_flag>());
  }

  void discover() {
    environment::check();
    os::watch_forks();
    const DriverVariables variables;
    cl_uint n = 0;
    cl_int code = clGetPlatformIDs(0, nullptr, &n);
    if (code != CL_SUCCESS || n == 0) {
      problems.push_back("no OpenCL platform (clGetPlatformIDs: " + std::string(error_name(code)) + ")");
      return;
    }
    std::vector<cl_platform_id> platforms(n);
    check(clGetPlatformIDs(n, platforms.data(), nullptr), "clGetPlatformIDs");
    std::vector<Found> all;
    for (cl_platform_id platform : platforms) {
      const std::string name = platform_string(platform, CL_PLATFORM_NAME);
      cl_uint count = 0;
      code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
      if (code != CL_SUCCESS || count == 0) {
        problems.push_back("platform " + name + " has no device (" + error_name(code) + ")");
        continue;
      }
      std::vector<cl_device_id> ids(count);
      check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr), "clGetDeviceIDs");
      for (cl_device_id id : ids) {
        const std::string label =
            name + " " + platform_string(platform, CL_PLATFORM_VERSION) + " " + device_string(id, CL_DEVICE_NAME);
        std::string why;
        if (!usable(id, why)) {
          problems.push_back(label + " is left out: " + why);
          continue;
        }
        const bool gpu =
            device_value<cl_device_type>(id, CL_DEVICE_TYPE) & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR);
        all.push_back({platform, id, label, gpu, host_driver(variables, name, id, gpu), is_familiar(name, id, gpu)});
      }
    }
    // One device per processor: PoCL's usual driver is left out where the one without threads is there.
    std::erase_if(all, [&](const Found& f) {
      auto replaces = [&](const Found& other) {
        return other.host_driver == HostDriver::basic && other.platform == f.platform;
      };
      return f.host_driver == HostDriver::none && !f.gpu && std::any_of(all.begin(), all.end(), replaces);
    });
    std::stable_partition(all.begin(), all.end(), [](const Found& f) { return f.gpu; });
    found = select(all);
  }

  static std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  }

  std::vector<Found> select(const std::vector<Found>& all) {
    auto wanted = environment::get("TORCH_OCL_VISIBLE_DEVICES");
    if (!wanted || *wanted == "all") return all;
    std::vector<Found> chosen;
    auto take = [&](const Found& f) {
      if (std::none_of(chosen.begin(), chosen.end(), [&](const Found& c) { return c.id == f.id; })) chosen.push_back(f);
    };
    std::istringstream items(*wanted);
    for (std::string item; std::getline(items, item, ',');) {
      item.erase(0, item.find_first_not_of(' '));
      item.erase(item.find_last_not_of(' ') + 1);
      if (item.empty()) continue;
      const size_t before = chosen.size();
      if (std::all_of(item.begin(), item.end(), [](unsigned char c) { return std::isdigit(c); })) {
        const size_t index = item.size() < 6 ? std::stoul(item) : all.size();
        if (index < all.size()) take(all[index]);
      } else {
        for (const Found& f : all)
          if (lower(f.label).find(lower(item)) != std::string::npos) take(f);
      }
      if (chosen.size() != before) continue;
      problems.push_back("TORCH_OCL_VISIBLE_DEVICES: nothing matches '" + item + "'");
      std::string names;
      for (size_t i = 0; i < all.size(); ++i) names += (i ? ", " : "") + std::to_string(i) + ": " + all[i].label;
      environment::reject("TORCH_OCL_VISIBLE_DEVICES", *wanted, names.empty() ? "there is no device" : names,
                          "nothing matches '" + item + "', which is left out");
    }
    return chosen;
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
    const Found& f = r.found[index];
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
    executor_ = make_executor(host_driver, context_, id_);
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
