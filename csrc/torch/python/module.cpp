// torch_ocl._C: what the Python package needs beside PyTorch's own device-generic API.
#include "base/error.h"
#include "torch/python/exports.h"
#include "torch/python/generated_kernel.h"
#include "torch/runtime/extension.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

namespace py = pybind11;
namespace core = ocl::python;
using namespace ocl;

#ifdef TORCH_OCL_DISTRIBUTED
void define_distributed(py::module& m);  // distributed.cpp
#endif

namespace {

py::dict properties(int index) {
  const Capabilities& c = core::capabilities(index);
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
  d["correctly_rounded_divide_sqrt"] = c.correctly_rounded_divide_sqrt;
  d["denormals"] = c.denormals;
  d["unified_memory"] = c.unified_memory;
  d["fma"] = core::fma(index);
  d["bfloat16_pairs"] = core::bfloat16_pairs(index);
  d["quick_bfloat16_pairs"] = core::quick_bfloat16_pairs(index);
  d["tensor_cores"] = core::tensor_cores(index);
  d["float_atomics"] = core::float_atomics(index);
  d["global_memory"] = c.global_memory;
  d["max_allocation"] = c.max_allocation;
  d["local_memory"] = c.local_memory;
  d["compute_units"] = c.compute_units;
  d["vector_floats"] = c.vector_floats;
  d["base_alignment"] = c.base_alignment;
  d["max_work_group"] = c.max_work_group;
  d["style"] = core::cpu_style(index) ? "cpu" : "gpu";
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
  const AllocatorStatistics s = core::memory_statistics(index);
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

py::dict host_memory_stats() {
  const at::HostStats s = at::getHostAllocator(at::kPrivateUse1)->get_stats();
  py::dict d;
  auto add = [&d](const char* name, const auto& stat) {
    d[py::str(std::string(name) + ".current")] = stat.current;
    d[py::str(std::string(name) + ".peak")] = stat.peak;
    d[py::str(std::string(name) + ".allocated")] = stat.allocated;
    d[py::str(std::string(name) + ".freed")] = stat.freed;
  };
  add("allocations", s.allocations);
  add("active_requests", s.active_requests);
  add("allocated_bytes", s.allocated_bytes);
  add("active_bytes", s.active_bytes);
  return d;
}

py::list memory_snapshot(int index) {
  py::list segments;
  for (const SegmentSnapshot& s : core::memory_snapshot(index)) {
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
  const program_cache::State state = core::cache_state();
  py::dict d;
  d["folder"] = core::cache_folder();
  d["files"] = state.files;
  d["bytes"] = state.bytes;
  d["writable"] = state.writable;
  d["enabled"] = core::cache_enabled();
  return d;
}

py::dict host() {
  const processors::Facts facts = core::processor_facts();
  const processors::Decision pool = core::pool_decision();
  const processors::Memory memory = core::host_memory();
  py::dict d;
  d["processors"] = facts.machine;
  d["allowed"] = facts.allowed;
  d["quota"] = facts.quota;
  d["usable"] = core::usable_processors();
  d["threads"] = pool.threads;
  d["reason"] = pool.reason;
  d["physical_memory"] = memory.physical;
  d["total_memory"] = memory.total;
  d["available_memory"] = memory.available;
  return d;
}

py::dict self_test(int index) {
  const auto [ok, message] = core::self_test(index);
  py::dict d;
  d["ok"] = ok;
  d["message"] = message;
  return d;
}

// Arguments: int, an address; bytes, a value; a tuple of one int, so many bytes of __local memory.
void launch_custom_kernel(uintptr_t kernel, const std::vector<size_t>& global, const std::vector<size_t>& local,
                          const py::list& values) {
  std::vector<std::string> bytes;
  bytes.reserve(values.size());
  std::vector<extension::Argument> arguments;
  for (const py::handle& value : values) {
    if (py::isinstance<py::bytes>(value)) {
      bytes.push_back(value.cast<std::string>());
      arguments.push_back({extension::Argument::value, bytes.back().data(), bytes.back().size()});
    } else if (py::isinstance<py::tuple>(value)) {
      arguments.push_back({extension::Argument::local, nullptr, value.cast<py::tuple>()[0].cast<size_t>()});
    } else {
      arguments.push_back({extension::Argument::address, reinterpret_cast<const void*>(value.cast<uintptr_t>()), 0});
    }
  }
  auto range = [](const std::vector<size_t>& sizes) {
    extension::Range result{static_cast<int>(sizes.size()), {1, 1, 1}};
    std::copy_n(sizes.begin(), std::min<size_t>(sizes.size(), 3), result.size.begin());
    return result;
  };
  const py::gil_scoped_release no_gil;
  torch_ocl_extension()->launch(reinterpret_cast<void*>(kernel), range(global), range(local), arguments.data(),
                                arguments.size());
}

void check_name(bool known, const std::string& name, const char* allowed) {
  if (!known) throw py::value_error("expected one of " + std::string(allowed) + ", got '" + name + "'");
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  // c10's errors become the Python types that PyTorch's own functions raise.
  py::register_local_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const c10::Error&) {
      torch::translate_exception_to_python(error);
    } catch (const ocl::InvalidArgument& wrong) {
      PyErr_SetString(PyExc_ValueError, wrong.what());
    } catch (const ocl::InvalidDevice& wrong) {
      PyErr_SetString(PyExc_IndexError, wrong.what());
    }
  });
  using release = py::call_guard<py::gil_scoped_release>;
  m.def("device_count", core::device_count, release());
  m.def("device_problems", core::device_problems, release());
  m.def("device_properties", properties);
  m.def("current_device", core::current_device);
  m.def("set_device", core::set_device);
  m.def("exchange_device", core::exchange_device);
  m.def("synchronize", core::synchronize, release());
  m.def("memory_stats", memory_stats);
  m.def("memory_snapshot", memory_snapshot);
  m.def("memory_info", core::memory_info);
  m.def("empty_cache", core::empty_cache, release());
  m.def("allocate", core::allocate);
  m.def("release", core::release);
  m.def("host_memory_stats", host_memory_stats);
  m.def("reset_peak_memory_stats", core::reset_peak);
  m.def("reset_accumulated_memory_stats", core::reset_accumulated);
  m.def("set_memory_limit", core::set_memory_limit);
  m.def("default_generator", core::default_generator);
  m.def("fallbacks", core::fallbacks);
  m.def("reset_fallbacks", core::reset_fallbacks);
  m.def("fallback_policy", core::fallback_policy);
  // torch.Event.elapsed_time takes no subclass of torch.Event as its argument.
  m.def("elapsed_time", [](int64_t start, int64_t end, int i) {
    const c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
    return guard.elapsedTime(reinterpret_cast<void*>(start), reinterpret_cast<void*>(end),
                             static_cast<c10::DeviceIndex>(i));
  });
  m.def("set_fallback_policy", [](const std::string& name) {
    check_name(core::set_fallback_policy(name), name, "'warn', 'silent', 'error'");
  });
  m.def("winograd_mode", core::winograd_mode);
  m.def("set_winograd_mode",
        [](const std::string& name) { check_name(core::set_winograd_mode(name), name, "'auto', 'precise', 'off'"); });
  m.def("tf32_allowed", core::tf32_allowed);
  m.def("allow_tf32", core::allow_tf32);
  m.def("tuning", core::tuning);
  m.def("set_tuning", core::set_tuning);
  m.def("tuning_table", core::tuning_table);
  m.def("clear_tuning", core::clear_tuning);
  m.def("build_counts", [] { return std::make_pair(core::build_counts().built, core::build_counts().loaded); });
  m.def("cache_folder", core::cache_folder);
  m.def("cache_state", cache_state);
  m.def("clear_cache", core::clear_cache);
  m.def("write_postponed_programs", core::write_postponed_programs, release());
  m.def("environment_table", core::environment_table);
  m.def("host", host);
  m.def("self_test", self_test);
  m.def("custom_kernel", [](int device, const std::string& name, const std::string& source) {
    const py::gil_scoped_release no_gil;
    return reinterpret_cast<uintptr_t>(torch_ocl_extension()->kernel(device, name.c_str(), source.c_str()));
  });
  m.def("launch_custom_kernel", launch_custom_kernel);
  core::add_generated_kernel_type(m);
#ifdef TORCH_OCL_DISTRIBUTED
  define_distributed(m);
#endif
  m.def("register_fork_handler",
        [] { torch::utils::register_fork_handler_for_device_init(c10::DeviceType::PrivateUse1); });
}
