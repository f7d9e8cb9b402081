// torch_ocl._C: what the Python package needs beside PyTorch's own device-generic API.
#include "aten/fallback.h"
#include "opencl/caching_allocator.h"
#include "opencl/environment.h"
#include "opencl/launch.h"
#include "opencl/program_cache.h"
#include "ops/conv/winograd.h"
#include "runtime/device.h"
#include "runtime/generator.h"

#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;
using namespace ocl;

namespace {

py::dict properties(int index) {
  const Device& device = Device::get(index);
  const Capabilities& c = device.capabilities();
  py::dict d;
  d["name"] = c.name;
  d["vendor"] = c.vendor;
  d["driver_version"] = c.driver_version;
  d["device_version"] = c.device_version;
  d["platform_name"] = c.platform_name;
  d["platform_version"] = c.platform_version;
  d["c_version"] = c.c_version;
  d["extensions"] = c.extensions;
  d["is_gpu"] = c.is_gpu;
  d["is_cpu"] = c.is_cpu;
  d["fp64"] = c.fp64;
  d["fp16"] = c.fp16;
  d["sub_groups"] = c.sub_groups;
  d["float_atomic_add"] = c.float_atomic_add;
  d["correctly_rounded_divide_sqrt"] = c.correctly_rounded_divide_sqrt;
  d["denormals"] = c.denormals;
  d["unified_memory"] = c.unified_memory;
  d["global_memory"] = c.global_memory;
  d["max_allocation"] = c.max_allocation;
  d["local_memory"] = c.local_memory;
  d["compute_units"] = c.compute_units;
  d["base_alignment"] = c.base_alignment;
  d["max_work_group"] = c.max_work_group;
  d["style"] = device.fat() ? "fat" : "simt";
  return d;
}

void add_stats(py::dict& d, const char* name, const MemoryStats& stats) {
  static constexpr const char* pools[] = {"all", "small_pool", "large_pool"};
  for (size_t i = 0; i < stats.size(); ++i) {
    const std::string prefix = std::string(name) + "." + pools[i] + ".";
    d[py::str(prefix + "current")] = stats[i].current;
    d[py::str(prefix + "peak")] = stats[i].peak;
    d[py::str(prefix + "allocated")] = stats[i].allocated;
    d[py::str(prefix + "freed")] = stats[i].freed;
  }
}

py::dict memory_stats(int index) {
  const AllocatorStatistics s = Device::get(index).allocator().statistics();
  py::dict d;
  add_stats(d, "allocation", s.allocation);
  add_stats(d, "segment", s.segment);
  add_stats(d, "active", s.active);
  add_stats(d, "inactive_split", s.inactive_split);
  add_stats(d, "allocated_bytes", s.allocated_bytes);
  add_stats(d, "reserved_bytes", s.reserved_bytes);
  add_stats(d, "active_bytes", s.active_bytes);
  add_stats(d, "inactive_split_bytes", s.inactive_split_bytes);
  add_stats(d, "requested_bytes", s.requested_bytes);
  d["num_alloc_retries"] = s.retries;
  d["num_ooms"] = s.out_of_memory;
  return d;
}

py::list memory_snapshot(int index) {
  py::list segments;
  for (const SegmentSnapshot& s : Device::get(index).allocator().snapshot()) {
    py::list blocks;
    uint64_t allocated = 0, requested = 0;
    for (const BlockSnapshot& b : s.blocks) {
      py::dict block;
      block["address"] = b.address;
      block["size"] = b.bytes;
      block["requested_size"] = b.requested;
      block["state"] = b.allocated ? "active_allocated" : "inactive";
      if (b.allocated) allocated += b.bytes, requested += b.requested;
      blocks.append(block);
    }
    py::dict segment;
    segment["device"] = index;
    segment["address"] = s.address;
    segment["total_size"] = s.bytes;
    segment["allocated_size"] = allocated;
    segment["active_size"] = allocated;
    segment["requested_size"] = requested;
    segment["stream"] = s.queue;
    segment["segment_type"] = s.large ? "large" : "small";
    segment["blocks"] = blocks;
    segments.append(segment);
  }
  return segments;
}

py::dict cache_state() {
  const program_cache::State state = program_cache::state();
  py::dict d;
  d["folder"] = program_cache::folder();
  d["files"] = state.files;
  d["bytes"] = state.bytes;
  d["writable"] = state.writable;
  d["enabled"] = program_cache::enabled();
  return d;
}

// Builds and runs one kernel and checks its result; for the doctor.
py::dict self_test(int index) {
  py::dict d;
  try {
    Device& device = Device::get(index);
    Queue& queue = device.default_queue();
    Workspace memory(queue, 4096);
    std::vector<int32_t> host(1024, 41);
    queue.write(memory.data(), host.data(), 4096);
    launch(queue, get_kernel(device, "selftest.cl", "add_one", Defines()), Range(16), Range(), memory.data(), int32_t{1024});
    queue.read(host.data(), memory.data(), 4096);
    const bool right = std::all_of(host.begin(), host.end(), [](int32_t v) { return v == 42; });
    d["ok"] = right;
    d["message"] = right ? "a kernel was built, run and gave the right result" : "a kernel ran but its result is wrong";
  } catch (const std::exception& error) {
    d["ok"] = false;
    d["message"] = error.what();
  }
  return d;
}

void set_fallback_policy(const std::string& name) {
  if (name == "warn") aten::set_fallback_policy(aten::FallbackPolicy::warn);
  else if (name == "silent") aten::set_fallback_policy(aten::FallbackPolicy::silent);
  else if (name == "error") aten::set_fallback_policy(aten::FallbackPolicy::error);
  else throw py::value_error("the fallback policy is 'warn', 'silent' or 'error', not '" + name + "'");
}

const char* fallback_policy() {
  switch (aten::fallback_policy()) {
    case aten::FallbackPolicy::silent: return "silent";
    case aten::FallbackPolicy::error: return "error";
    default: return "warn";
  }
}

void set_winograd_mode(const std::string& name) {
  if (name == "auto") ops::set_winograd_mode(ops::WinogradMode::automatic);
  else if (name == "precise") ops::set_winograd_mode(ops::WinogradMode::precise);
  else if (name == "off") ops::set_winograd_mode(ops::WinogradMode::off);
  else throw py::value_error("the Winograd mode is 'auto', 'precise' or 'off', not '" + name + "'");
}

const char* winograd_mode() {
  switch (ops::winograd_mode()) {
    case ops::WinogradMode::precise: return "precise";
    case ops::WinogradMode::off: return "off";
    default: return "auto";
  }
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  using release = py::call_guard<py::gil_scoped_release>;
  m.def("device_count", [] { return static_cast<int>(runtime::device_count()); }, release());
  m.def("device_problems", [] { return Device::count() >= 0 ? Device::problems() : std::vector<std::string>{}; });
  m.def("device_properties", properties);
  m.def("current_device", [] { return static_cast<int>(runtime::current_device()); });
  m.def("set_device", [](int i) { runtime::set_device(static_cast<c10::DeviceIndex>(i)); });
  m.def("exchange_device", [](int i) { return static_cast<int>(runtime::exchange_device(static_cast<c10::DeviceIndex>(i))); });
  m.def("synchronize", [](int i) { runtime::synchronize_device(static_cast<c10::DeviceIndex>(i)); }, release());
  m.def("memory_stats", memory_stats);
  m.def("memory_snapshot", memory_snapshot);
  m.def("memory_info", [](int i) {
    const uint64_t total = Device::get(i).capabilities().global_memory, reserved = Device::get(i).allocator().reserved_bytes();
    return std::make_pair(total > reserved ? total - reserved : uint64_t{0}, total);
  });
  m.def("empty_cache", [] {
    for (int i = 0; i < Device::count(); ++i) Device::get(i).allocator().empty_cache();
  }, release());
  m.def("reset_peak_memory_stats", [](int i) { Device::get(i).allocator().reset_peak(); });
  m.def("reset_accumulated_memory_stats", [](int i) { Device::get(i).allocator().reset_accumulated(); });
  m.def("set_memory_limit", [](int i, uint64_t bytes) { Device::get(i).allocator().set_limit(bytes); });
  m.def("default_generator", [](int i) { return runtime::default_generator(static_cast<c10::DeviceIndex>(i)); });
  m.def("fallbacks", aten::fallback_counts);
  m.def("reset_fallbacks", aten::reset_fallback_counts);
  m.def("set_fallback_policy", set_fallback_policy);
  m.def("fallback_policy", fallback_policy);
  m.def("set_winograd_mode", set_winograd_mode);
  m.def("winograd_mode", winograd_mode);
  m.def("build_counts", [] { return std::make_pair(build_counts().built, build_counts().loaded); });
  m.def("cache_folder", program_cache::folder);
  m.def("cache_state", cache_state);
  m.def("clear_cache", program_cache::clear);
  m.def("environment_table", [] {
    std::vector<std::tuple<std::string, std::string, std::string>> rows;
    for (const auto& v : environment::table()) rows.emplace_back(v.name, v.default_value, v.meaning);
    return rows;
  });
  m.def("self_test", self_test);
  m.def("register_fork_handler", [] { torch::utils::register_fork_handler_for_device_init(c10::DeviceType::PrivateUse1); });
}
