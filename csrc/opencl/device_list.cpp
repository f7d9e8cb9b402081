#include "opencl/device_list.h"

#include "base/environment.h"
#include "base/injected_faults.h"
#include "base/os.h"
#include "base/processors.h"
#include "base/warning.h"
#include "opencl/capabilities/query.h"
#include "opencl/error.h"
#include "opencl/sub_devices.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

namespace ocl {

namespace {

using Found = FoundDevice;

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

struct Search {
  std::vector<std::string>& problems;

  std::vector<Found> discover() {
    environment::check();
    os::watch_forks();
    const DriverVariables variables;
    cl_uint n = 0;
    cl_int code = clGetPlatformIDs(0, nullptr, &n);
    if (code != CL_SUCCESS || n == 0) {
      problems.push_back("no OpenCL platform (clGetPlatformIDs: " + std::string(error_name(code)) + ")");
      return {};
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
    return select(cut(all));
  }

  // Every CPU becomes as many devices as there are parts.
  std::vector<Found> cut(const std::vector<Found>& all) {
    const std::vector<cpu_parts::Part>& parts = cpu_parts::all();
    if (!cpu_parts::why_none().empty()) problems.push_back(cpu_parts::why_none());
    if (parts.empty()) return all;
    std::vector<Found> result;
    for (const Found& whole : all) {
      std::string why;
      std::vector<cl_device_id> ids(parts.size(), whole.id);
      if (whole.gpu)
        ids.clear();
      else if (whole.host_driver == HostDriver::none)
        ids = sub_devices(whole.id, parts, why);
      if (ids.empty()) result.push_back(whole);
      if (!why.empty()) {
        problems.push_back(whole.label + " is not cut into " + std::to_string(parts.size()) + " devices: " + why);
        warn("TORCH_OCL_DEVICES_PER_CPU: " + problems.back());
      }
      for (size_t i = 0; i < ids.size(); ++i) {
        Found& f = result.emplace_back(whole);
        f.id = ids[i], f.part = &parts[i];
        f.label += ", part " + std::to_string(i + 1) + " of " + std::to_string(parts.size());
      }
    }
    return result;
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
      if (std::none_of(chosen.begin(), chosen.end(), [&](const Found& c) { return c.id == f.id && c.part == f.part; }))
        chosen.push_back(f);
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

}  // namespace

std::vector<FoundDevice> find_devices(std::vector<std::string>& problems) { return Search{problems}.discover(); }

}  // namespace ocl
