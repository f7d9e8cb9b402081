#include "torch/python/exports.h"

#include "torch/aten/fallback.h"
#include "opencl/capabilities/bfloat16_pairs.h"
#include "opencl/capabilities/float_atomics.h"
#include "opencl/launch.h"
#include "opencl/capabilities/tensor_cores.h"
#include "ops/conv/winograd.h"
#include "ops/core/precision.h"
#include "ops/core/tuning.h"
#include "torch/runtime/device.h"
#include "torch/runtime/generator.h"

#include <algorithm>

namespace ocl::aten {

namespace {

c10::DeviceIndex index(int i) { return static_cast<c10::DeviceIndex>(i); }

constexpr std::pair<const char*, FallbackPolicy> policies[] = {
    {"warn", FallbackPolicy::warn}, {"silent", FallbackPolicy::silent}, {"error", FallbackPolicy::error}};
constexpr std::pair<const char*, ops::WinogradMode> winograd_modes[] = {
    {"auto", ops::WinogradMode::automatic}, {"precise", ops::WinogradMode::precise}, {"off", ops::WinogradMode::off}};

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

// Builds and runs one kernel and checks its result.
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

const Exports exports = {
    .device_count = [] { return static_cast<int>(runtime::device_count()); },
    .device_problems = [] { return Device::problems(); },
    .capabilities = [](int i) -> const Capabilities& { return runtime::device(index(i)).capabilities(); },
    .cpu_style = [](int i) { return Device::get(i).cpu_style(); },
    .bfloat16_pairs = [](int i) { return has_bfloat16_pairs(Device::get(i)); },
    .quick_bfloat16_pairs = [](int i) { return prefers_bfloat16_pairs(Device::get(i)); },
    .tensor_cores = [](int i) { return has_tensor_cores(Device::get(i)); },
    .float_atomics = [](int i) { return name_of(float_atomics(Device::get(i))); },
    .current_device = [] { return static_cast<int>(runtime::current_device()); },
    .set_device = [](int i) { runtime::set_device(index(i)); },
    .exchange_device = [](int i) { return static_cast<int>(runtime::exchange_device(index(i))); },
    .synchronize = [](int i) { runtime::synchronize_device(i < 0 ? runtime::current_device() : index(i)); },
    .memory_statistics = [](int i) { return runtime::device(index(i)).allocator().statistics(); },
    .memory_snapshot = [](int i) { return runtime::device(index(i)).allocator().snapshot(); },
    .memory_info = [](int i) { return runtime::device(index(i)).allocator().memory_info(); },
    .empty_cache =
        [] {
          for (int i = 0; i < Device::count(); ++i) Device::get(i).allocator().empty_cache();
        },
    .allocate =
        [](int i, size_t bytes, int stream) {
          Device& device = runtime::device(index(i));
          return reinterpret_cast<uintptr_t>(device.allocator().allocate(bytes, device.queue(stream)));
        },
    .release =
        [](uintptr_t address) {
          const SegmentInfo segment = find_segment(reinterpret_cast<const void*>(address));
          TORCH_CHECK_VALUE(segment.device, "the address ", address, " is not device memory");
          segment.device->allocator().free(reinterpret_cast<void*>(address));
        },
    .reset_peak = [](int i) { runtime::device(index(i)).allocator().reset_peak(); },
    .reset_accumulated = [](int i) { runtime::device(index(i)).allocator().reset_accumulated(); },
    .set_memory_limit = [](int i, uint64_t bytes) { runtime::device(index(i)).allocator().set_limit(bytes); },
    .default_generator = [](int i) { return runtime::default_generator(index(i)); },
    .fallbacks = fallback_counts,
    .reset_fallbacks = reset_fallback_counts,
    .fallback_policy = [] { return name_in(policies, fallback_policy()); },
    .set_fallback_policy = [](const std::string& name) { return set_by_name(policies, name, set_fallback_policy); },
    .winograd_mode = [] { return name_in(winograd_modes, ops::winograd_mode()); },
    .set_winograd_mode =
        [](const std::string& name) { return set_by_name(winograd_modes, name, ops::set_winograd_mode); },
    .tf32_allowed = ops::tf32_allowed,
    .allow_tf32 = ops::allow_tf32,
    .tuning = ops::tuning::measuring,
    .set_tuning = ops::tuning::set_measuring,
    .tuning_table = [](int i) { return ops::tuning::table(Device::get(i)); },
    .clear_tuning = [](int i) { ops::tuning::clear(Device::get(i)); },
    .build_counts = build_counts,
    .cache_folder = program_cache::folder,
    .cache_state = program_cache::state,
    .cache_enabled = program_cache::enabled,
    .clear_cache = program_cache::clear,
    .write_postponed_programs = program_cache::write_postponed,
    .environment_table =
        [] {
          std::vector<std::array<std::string, 4>> rows;
          for (const environment::Variable& v : environment::table())
            rows.push_back({v.name, v.default_value, environment::accepted(v), v.meaning});
          return rows;
        },
    .processor_facts = [] { return processors::facts(); },
    .pool_decision = [] { return processors::pool(); },
    .usable_processors = processors::usable,
    .host_memory = [] { return processors::memory(); },
    .self_test = self_test,
};

}  // namespace

}  // namespace ocl::aten

const ocl::aten::Exports* torch_ocl_exports() { return &ocl::aten::exports; }
