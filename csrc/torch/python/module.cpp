// torch_ocl._C: what the Python package needs beside PyTorch's own device-generic API.
#include "base/error.h"
#include "torch/distributed/groups.h"
#include "torch/python/exports.h"
#include "torch/python/generated_graph.h"
#include "torch/python/generated_kernel.h"
#include "torch/python/torch_objects.h"
#include "torch/runtime/extension.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace ocl::python {

// Functions of the module, beside those of exports.h that are called as they are.
namespace glue {

std::string style(int device) { return cpu_style(device) ? "cpu" : "gpu"; }

// What may be found out by running kernels, which takes a while.
struct Probed {
  explicit Probed(int device)
      : fma(python::fma(device)),
        bfloat16_pairs(python::bfloat16_pairs(device)),
        quick_bfloat16_pairs(python::quick_bfloat16_pairs(device)),
        tensor_cores(python::tensor_cores(device)),
        float_atomics(python::float_atomics(device)) {}
  bool fma, bfloat16_pairs, quick_bfloat16_pairs, tensor_cores;
  const char* float_atomics;
};

Object properties(PyObject* device) {
  const int index = Argument<int>::of(device);
  const Capabilities& c = capabilities(index);
  const Probed probed = [&] {
    const ReleaseGil no_gil;
    return Probed(index);
  }();
  Dict d;
  d.set("name", c.name);
  d.set("vendor", c.vendor);
  d.set("driver_version", c.driver_version);
  d.set("device_version", c.device_version);
  d.set("platform_name", c.platform_name);
  d.set("platform_version", c.platform_version);
  d.set("c_version", c.c_version);
  d.set("extensions", c.extensions);
  d.set("is_gpu", c.is_gpu);
  d.set("is_cpu", c.is_cpu);
  d.set("fp64", c.fp64);
  d.set("fp16", c.fp16);
  d.set("sub_groups", c.sub_groups);
  d.set("correctly_rounded_divide_sqrt", c.correctly_rounded_divide_sqrt);
  d.set("denormals", c.denormals);
  d.set("unified_memory", c.unified_memory);
  d.set("fma", probed.fma);
  d.set("bfloat16_pairs", probed.bfloat16_pairs);
  d.set("quick_bfloat16_pairs", probed.quick_bfloat16_pairs);
  d.set("tensor_cores", probed.tensor_cores);
  d.set("float_atomics", probed.float_atomics);
  d.set("global_memory", c.global_memory);
  d.set("max_allocation", c.max_allocation);
  d.set("local_memory", c.local_memory);
  d.set("compute_units", c.compute_units);
  d.set("vector_floats", c.vector_floats);
  d.set("base_alignment", c.base_alignment);
  d.set("max_work_group", c.max_work_group);
  d.set("style", style(index));
  const PartFacts part = part_facts(index);
  d.set("part", part.part);
  d.set("processors", part.processors);
  d.set("numa_node", part.numa_node);
  return d.take();
}

void add_stats(Dict& d, const char* name, const MemoryStats& stats) {
  static constexpr const char* pools[] = {"all", "small_pool", "large_pool"};
  for (size_t i = 0; i < stats.size(); ++i) {
    const std::string prefix = std::string(name) + "." + pools[i] + ".";
    d.set(prefix + "current", stats[i].current);
    d.set(prefix + "peak", stats[i].peak);
    d.set(prefix + "allocated", stats[i].allocated);
    d.set(prefix + "freed", stats[i].freed);
  }
}

Object memory_stats(PyObject* device) {
  const AllocatorStatistics s = python::memory_statistics(Argument<int>::of(device));
  Dict d;
  add_stats(d, "allocation", s.allocation);
  add_stats(d, "segment", s.segment);
  add_stats(d, "active", s.active);
  add_stats(d, "inactive_split", s.inactive_split);
  add_stats(d, "allocated_bytes", s.allocated_bytes);
  add_stats(d, "reserved_bytes", s.reserved_bytes);
  add_stats(d, "active_bytes", s.active_bytes);
  add_stats(d, "inactive_split_bytes", s.inactive_split_bytes);
  add_stats(d, "requested_bytes", s.requested_bytes);
  d.set("num_alloc_retries", s.retries);
  d.set("num_ooms", s.out_of_memory);
  return d.take();
}

Object host_memory_stats() {
  const at::HostStats s = at::getHostAllocator(at::kPrivateUse1)->get_stats();
  Dict d;
  auto add = [&d](const char* name, const auto& stat) {
    d.set(std::string(name) + ".current", stat.current);
    d.set(std::string(name) + ".peak", stat.peak);
    d.set(std::string(name) + ".allocated", stat.allocated);
    d.set(std::string(name) + ".freed", stat.freed);
  };
  add("allocations", s.allocations);
  add("active_requests", s.active_requests);
  add("allocated_bytes", s.allocated_bytes);
  add("active_bytes", s.active_bytes);
  return d.take();
}

Object memory_snapshot(PyObject* device) {
  const int index = Argument<int>::of(device);
  std::vector<Object> segments;
  for (const SegmentSnapshot& s : python::memory_snapshot(index)) {
    std::vector<Object> blocks;
    uint64_t allocated = 0, requested = 0;
    for (const BlockSnapshot& b : s.blocks) {
      Dict block;
      block.set("address", b.address);
      block.set("size", b.bytes);
      block.set("requested_size", b.requested);
      block.set("state", b.allocated ? "active_allocated" : "inactive");
      if (b.allocated) allocated += b.bytes, requested += b.requested;
      blocks.push_back(block.take());
    }
    Dict segment;
    segment.set("device", index);
    segment.set("address", s.address);
    segment.set("total_size", s.bytes);
    segment.set("allocated_size", allocated);
    segment.set("active_size", allocated);
    segment.set("requested_size", requested);
    segment.set("stream", s.queue);
    segment.set("segment_pool_id", std::pair<uint64_t, uint64_t>(0, s.pool));
    segment.set("segment_type", s.large ? "large" : "small");
    segment.set("blocks", list_of(std::move(blocks)));
    segments.push_back(segment.take());
  }
  return list_of(std::move(segments));
}

Object cache_state() {
  const program_cache::State state = python::cache_state();
  Dict d;
  d.set("folder", cache_folder());
  d.set("files", state.files);
  d.set("bytes", state.bytes);
  d.set("writable", state.writable);
  d.set("enabled", cache_enabled());
  return d.take();
}

Object host() {
  const processors::Facts facts = processor_facts();
  const processors::Decision pool = pool_decision();
  const processors::Memory memory = host_memory();
  Dict d;
  d.set("processors", facts.machine);
  d.set("allowed", facts.allowed);
  d.set("quota", facts.quota);
  d.set("usable", usable_processors());
  d.set("threads", pool.threads);
  d.set("reason", pool.reason);
  d.set("physical_memory", memory.physical);
  d.set("total_memory", memory.total);
  d.set("available_memory", memory.available);
  return d.take();
}

Object self_test(PyObject* device) {
  const int index = Argument<int>::of(device);
  const auto [ok, message] = [&] {
    const ReleaseGil no_gil;
    return python::self_test(index);
  }();
  Dict d;
  d.set("ok", ok);
  d.set("message", message);
  return d.take();
}

Object default_generator(PyObject* device) { return to_python(python::default_generator(Argument<int>::of(device))); }

// torch.Event.elapsed_time takes no subclass of torch.Event as its argument.
double elapsed_time(int64_t start, int64_t end, int device) {
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
  return guard.elapsedTime(reinterpret_cast<void*>(start), reinterpret_cast<void*>(end),
                           static_cast<c10::DeviceIndex>(device));
}

std::pair<uint64_t, uint64_t> build_counts() {
  const BuildCounts counts = python::build_counts();
  return {counts.built, counts.loaded};
}

void check_name(bool known, const std::string& name, const char* allowed) {
  if (!known) throw InvalidArgument("expected one of " + std::string(allowed) + ", got '" + name + "'");
}
void set_fallback_policy(const std::string& name) {
  check_name(python::set_fallback_policy(name), name, "'warn', 'silent', 'error'");
}
void set_winograd_mode(const std::string& name) {
  check_name(python::set_winograd_mode(name), name, "'auto', 'precise', 'off'");
}

uintptr_t custom_kernel(int device, const std::string& name, const std::string& source) {
  return reinterpret_cast<uintptr_t>(torch_ocl_extension()->kernel(device, name.c_str(), source.c_str()));
}

extension::Range range(PyObject* sizes) {
  const auto values = Argument<std::vector<size_t>>::of(sizes);
  extension::Range result{static_cast<int>(values.size()), {1, 1, 1}};
  std::copy_n(values.begin(), std::min<size_t>(values.size(), 3), result.size.begin());
  return result;
}

// Arguments: int, an address; bytes, a value; a tuple of one int, so many bytes of __local memory.
Object launch_custom_kernel(PyObject* kernel, PyObject* global, PyObject* local, PyObject* values) {
  std::vector<extension::Argument> arguments;
  for_each(values, [&](PyObject* value) {  // the list keeps the bytes
    if (PyBytes_Check(value)) {
      char* data = nullptr;
      Py_ssize_t size = 0;
      if (PyBytes_AsStringAndSize(value, &data, &size) < 0) throw PythonError();
      arguments.push_back({extension::Argument::value, data, static_cast<size_t>(size)});
    } else if (PyTuple_Check(value)) {
      const Object bytes(PySequence_GetItem(value, 0));
      arguments.push_back({extension::Argument::local, nullptr, Argument<size_t>::of(bytes.get())});
    } else {
      const auto address = Argument<uintptr_t>::of(value);
      arguments.push_back({extension::Argument::address, reinterpret_cast<const void*>(address), 0});
    }
  });
  const auto handle = reinterpret_cast<void*>(Argument<uintptr_t>::of(kernel));
  const extension::Range all = range(global), group = range(local);
  {
    const ReleaseGil no_gil;
    torch_ocl_extension()->launch(handle, all, group, arguments.data(), arguments.size());
  }
  return none();
}

}  // namespace glue

namespace {

PyMethodDef functions[] = {
    method<device_count>("device_count"),
    method<device_problems>("device_problems"),
    method<glue::properties>("device_properties"),
    method<current_device>("current_device"),
    method<set_device>("set_device"),
    method<exchange_device>("exchange_device"),
    method<synchronize>("synchronize"),
    method<glue::memory_stats>("memory_stats"),
    method<glue::memory_snapshot>("memory_snapshot"),
    method<memory_info>("memory_info"),
    method<empty_cache>("empty_cache"),
    method<allocate>("allocate"),
    method<release>("release"),
    method<glue::host_memory_stats>("host_memory_stats"),
    method<reset_peak>("reset_peak_memory_stats"),
    method<reset_accumulated>("reset_accumulated_memory_stats"),
    method<set_memory_limit>("set_memory_limit"),
    method<new_pool>("new_pool"),
    method<retain_pool>("retain_pool"),
    method<release_pool>("release_pool"),
    method<pool_users>("pool_users"),
    method<use_pool>("use_pool"),
    method<graph_new>("graph_new"),
    method<graph_delete>("graph_delete"),
    method<graph_capture_begin>("graph_capture_begin"),
    method<graph_capture_end>("graph_capture_end"),
    method<graph_replay>("graph_replay"),
    method<graph_reset>("graph_reset"),
    method<graph_pool>("graph_pool"),
    method<graph_size>("graph_size"),
    method<graph_text>("graph_text"),
    method<is_capturing>("is_capturing"),
    method<glue::default_generator>("default_generator"),
    method<fallbacks>("fallbacks"),
    method<reset_fallbacks>("reset_fallbacks"),
    method<fallback_policy>("fallback_policy"),
    method<glue::set_fallback_policy>("set_fallback_policy"),
    method<glue::elapsed_time>("elapsed_time"),
    method<winograd_mode>("winograd_mode"),
    method<glue::set_winograd_mode>("set_winograd_mode"),
    method<tf32_allowed>("tf32_allowed"),
    method<allow_tf32>("allow_tf32"),
    method<tuning>("tuning"),
    method<set_tuning>("set_tuning"),
    method<tuning_table>("tuning_table"),
    method<clear_tuning>("clear_tuning"),
    method<glue::build_counts>("build_counts"),
    method<kernels_ahead>("kernels_ahead"),
    method<cache_folder>("cache_folder"),
    method<glue::cache_state>("cache_state"),
    method<clear_cache>("clear_cache"),
    method<write_postponed_programs>("write_postponed_programs"),
    method<environment_table>("environment_table"),
    method<glue::host>("host"),
    method<glue::self_test>("self_test"),
    method<glue::custom_kernel>("custom_kernel"),
    method<glue::launch_custom_kernel>("launch_custom_kernel"),
    method("generated_kernel", generated_kernel_function),
    method("generated_graph", generated_graph_function),
    method("empty_strided", empty_strided),
#ifdef TORCH_OCL_DISTRIBUTED
    method<ocl::distributed::add_to_process_group>("add_to_process_group"),
    method<ocl::distributed::close_process_groups>("close_process_groups"),
#endif
    method<register_fork_handler>("register_fork_handler"),
    {nullptr, nullptr, 0, nullptr},
};

#ifdef TORCH_OCL_DISTRIBUTED
// A thread that Python has never seen has no lock, and asking for it would be the end of it once Python ends.
void without_gil(const std::function<void()>& function) {
  if (!Py_IsInitialized() || !PyGILState_GetThisThreadState()) return function();
  const PyGILState_STATE state = PyGILState_Ensure();  // nothing where the thread has it
  {
    const ReleaseGil no_gil;
    function();
  }
  PyGILState_Release(state);
}
#endif

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

}  // namespace ocl::python

// NOLINTNEXTLINE(bugprone-reserved-identifier): Python makes the name of the module's.
extern "C" __attribute__((visibility("default"))) PyObject* PyInit__C() {
#ifdef TORCH_OCL_DISTRIBUTED
  ocl::distributed::set_without_gil(&ocl::python::without_gil);
#endif
  return PyModule_Create(&ocl::python::module);
}
