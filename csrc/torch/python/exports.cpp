#include "torch/python/exports.h"

#include "opencl/capabilities/bfloat16_pairs.h"
#include "opencl/capabilities/float_atomics.h"
#include "opencl/capabilities/fma.h"
#include "opencl/launch.h"
#include "opencl/capabilities/tensor_cores.h"
#include "opencl/part_executor.h"
#include "opencl/program/ahead.h"
#include "ops/conv/winograd.h"
#include "ops/core/device_errors.h"
#include "ops/core/precision.h"
#include "ops/core/tuning.h"
#include "torch/aten/fallback.h"
#include "torch/runtime/device.h"
#include "torch/runtime/generator.h"
#include "torch/runtime/graph.h"

#include <algorithm>
#include <memory>
#include <mutex>

namespace ocl::python {

namespace {

c10::DeviceIndex index(int i) { return static_cast<c10::DeviceIndex>(i); }

using aten::FallbackPolicy;

constexpr std::pair<const char*, FallbackPolicy> policies[] = {
    {"warn", FallbackPolicy::warn}, {"silent", FallbackPolicy::silent}, {"error", FallbackPolicy::error}};
constexpr std::pair<const char*, ops::WinogradMode> winograd_modes[] = {
    {"auto", ops::WinogradMode::automatic}, {"precise", ops::WinogradMode::precise}, {"off", ops::WinogradMode::off}};

CachingAllocator& allocator(int device) { return runtime::device(index(device)).allocator(); }

template <class Table, class Value>
std::string name_in(const Table& table, Value value) {
  for (const auto& [name, v] : table)
    if (v == value) return name;
  return "";
}

template <class Table, class Setter>
bool set_by_name(const Table& table, const std::string& wanted, Setter set) {
  for (const auto& [name, v] : table)
    if (wanted == name) return set(v), true;
  return false;
}

}  // namespace

int device_count() { return static_cast<int>(runtime::device_count()); }
std::vector<std::string> device_problems() { return Device::problems(); }
PartFacts part_facts(int device_index) {
  const Device& device = runtime::device(index(device_index));
  const cpu_parts::Part* part = part_of(device);
  if (!part) return {};
  // Which processors a driver's own sub-device has is the driver's choice.
  return {std::to_string(part->index + 1) + " of " + std::to_string(part->count),
          device.executor() ? cpu_parts::list_of(part->processors) : "", part->node};
}
const Capabilities& capabilities(int device) { return runtime::device(index(device)).capabilities(); }
bool cpu_style(int device) { return Device::get(device).cpu_style(); }
bool fma(int device) { return has_fma(Device::get(device)); }
bool bfloat16_pairs(int device) { return has_bfloat16_pairs(Device::get(device)); }
bool quick_bfloat16_pairs(int device) { return prefers_bfloat16_pairs(Device::get(device)); }
bool tensor_cores(int device) { return has_tensor_cores(Device::get(device)); }
const char* float_atomics(int device) { return name_of(ocl::float_atomics(Device::get(device))); }

int current_device() { return static_cast<int>(runtime::current_device()); }
void set_device(int device) { runtime::set_device(index(device)); }
int exchange_device(int device) { return static_cast<int>(runtime::exchange_device(index(device))); }
void synchronize(int device) { runtime::synchronize_device(device < 0 ? runtime::current_device() : index(device)); }

AllocatorStatistics memory_statistics(int device) { return allocator(device).statistics(); }
std::vector<SegmentSnapshot> memory_snapshot(int device) { return allocator(device).snapshot(); }
std::pair<size_t, size_t> memory_info(int device) { return allocator(device).memory_info(); }
void empty_cache() {
  for (int i = 0; i < Device::count(); ++i) Device::get(i).allocator().empty_cache();
}
uintptr_t allocate(int device, size_t bytes, int stream) {
  Device& d = runtime::device(index(device));
  return reinterpret_cast<uintptr_t>(d.allocator().allocate(bytes, d.queue(stream)));
}
void release(uintptr_t address) {
  const SegmentInfo segment = find_segment(reinterpret_cast<const void*>(address));
  TORCH_CHECK_VALUE(segment.device, "the address ", address, " is not device memory");
  segment.device->allocator().free(reinterpret_cast<void*>(address));
}
void reset_peak(int device) { allocator(device).reset_peak(); }
void reset_accumulated(int device) { allocator(device).reset_accumulated(); }
void set_memory_limit(int device, uint64_t bytes) { allocator(device).set_limit(bytes); }

uint64_t new_pool() { return CachingAllocator::new_pool(); }
void retain_pool(int device, uint64_t pool) { allocator(device).retain_pool(pool); }
void release_pool(int device, uint64_t pool) { allocator(device).release_pool(pool); }
int pool_users(int device, uint64_t pool) { return allocator(device).users(pool); }
uint64_t use_pool(int device, uint64_t pool) { return allocator(device).use_pool(pool); }

static runtime::Graph& graph_at(uintptr_t address) { return *reinterpret_cast<runtime::Graph*>(address); }
uintptr_t graph_new() { return reinterpret_cast<uintptr_t>(new runtime::Graph); }
void graph_delete(uintptr_t graph) {
  graph_at(graph).reset();
  delete &graph_at(graph);
}
void graph_capture_begin(uintptr_t graph, uint64_t pool) { graph_at(graph).capture_begin(pool); }
void graph_capture_end(uintptr_t graph) { graph_at(graph).capture_end(); }
void graph_replay(uintptr_t graph) { graph_at(graph).replay(); }
void graph_reset(uintptr_t graph) { graph_at(graph).reset(); }
uint64_t graph_pool(uintptr_t graph) { return graph_at(graph).pool(); }
size_t graph_size(uintptr_t graph) { return graph_at(graph).size(); }
std::string graph_text(uintptr_t graph) { return graph_at(graph).text(); }
bool is_capturing() { return runtime::is_capturing(); }

at::Generator default_generator(int device) { return runtime::default_generator(index(device)); }

std::map<std::string, uint64_t> fallbacks() { return aten::fallback_counts(); }
void reset_fallbacks() { aten::reset_fallback_counts(); }
std::string fallback_policy() { return name_in(policies, aten::fallback_policy()); }
bool set_fallback_policy(const std::string& name) { return set_by_name(policies, name, aten::set_fallback_policy); }

std::string winograd_mode() { return name_in(winograd_modes, ops::winograd_mode()); }
bool set_winograd_mode(const std::string& name) { return set_by_name(winograd_modes, name, ops::set_winograd_mode); }
bool tf32_allowed() { return ops::tf32_allowed(); }
void allow_tf32(bool on) { ops::allow_tf32(on); }
bool tuning() { return ops::tuning::measuring(); }
void set_tuning(bool on) { ops::tuning::set_measuring(on); }
std::string tuning_table(int device) { return ops::tuning::table(Device::get(device)); }
void clear_tuning(int device) { ops::tuning::clear(Device::get(device)); }

BuildCounts build_counts() { return ocl::build_counts(); }
std::string kernels_ahead() { return ahead::state(); }
void* generated_kernel(int device, const char* program, const char* name, const std::string& source) {
  return &get_kernel_of_program(Device::get(device), program, name, source);
}
void finish_generated_kernel(void* handle) {
  Kernel& kernel = *static_cast<Kernel*>(handle);
  const std::lock_guard lock(kernel.mutex());
  kernel.handle();
}
int32_t* device_error_buffer(int device) { return ops::device_errors(Device::get(device)).data(); }

// One site for each text, for the life of the process.
int32_t device_error_code(const std::string& message) {
  using ops::ErrorSite;
  static std::mutex mutex;
  static auto* sites = new std::map<std::string, std::unique_ptr<ErrorSite>>;
  const std::lock_guard lock(mutex);
  const auto [row, is_new] = sites->try_emplace(message);
  if (is_new)
    row->second = message.empty() ? std::make_unique<ErrorSite>("compiled code")
                                  : std::make_unique<ErrorSite>(row->first.c_str(), ErrorSite::Kind::message);
  return row->second->code();
}

std::string cache_folder() { return program_cache::folder(); }
program_cache::State cache_state() { return program_cache::state(); }
bool cache_enabled() { return program_cache::enabled(); }
void clear_cache() { program_cache::clear(); }
size_t write_postponed_programs(double seconds) { return program_cache::write_postponed(seconds); }

std::vector<std::array<std::string, 4>> environment_table() {
  std::vector<std::array<std::string, 4>> rows;
  for (const environment::Variable& v : environment::table())
    rows.push_back({v.name, v.default_value, environment::accepted(v), v.meaning});
  return rows;
}
processors::Facts processor_facts() { return processors::facts(); }
processors::Decision pool_decision() { return processors::pool(); }
unsigned usable_processors() { return processors::usable(); }
processors::Memory host_memory() { return processors::memory(); }

std::pair<bool, std::string> self_test(int device_index) {
  try {
    Device& device = Device::get(device_index);
    Queue& queue = device.default_queue();
    Workspace memory(queue, 4096);
    std::vector<int32_t> host(1024, 41);
    queue.write(memory.data(), host.data(), 4096);
    launch(queue, get_kernel(device, "selftest/selftest.cl", "add_one", Defines()), Range(16), Range(), memory.data(),
           int32_t{1024});
    queue.read(host.data(), memory.data(), 4096);
    const bool right = std::all_of(host.begin(), host.end(), [](int32_t v) { return v == 42; });
    return {right,
            right ? "a kernel was built, ran and gave the right result" : "a kernel ran but its result is wrong"};
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
}

}  // namespace ocl::python
