// The functions of libtorch_ocl.so that the extension module (module.cpp) calls. All others are hidden, so the module
// links to these and carries no second copy of the library's state. Devices are given by their index.
#pragma once

#include "base/environment.h"
#include "base/processors.h"
#include "opencl/memory/caching_allocator.h"
#include "opencl/program/program.h"
#include "opencl/program/program_cache.h"

#include <ATen/core/Generator.h>

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace ocl::python {

int device_count();
std::vector<std::string> device_problems();
const Capabilities& capabilities(int device);
// The part of a CPU that the device is (csrc/base/cpu_parts.h): "1 of 2" and its processors ("0-3"), as far as they are
// known; "" and -1: it is a whole device.
struct PartFacts {
  std::string part, processors;
  int numa_node = -1;
};
PartFacts part_facts(int device);
bool cpu_style(int device);
bool bfloat16_pairs(int device);        // csrc/opencl/capabilities/bfloat16_pairs.h
bool fma(int device);                   // programs can call it
bool quick_bfloat16_pairs(int device);  // they multiply faster than float32
bool tensor_cores(int device);          // csrc/opencl/capabilities/tensor_cores.h
const char* float_atomics(int device);  // csrc/opencl/capabilities/float_atomics.h
int current_device();
void set_device(int device);
int exchange_device(int device);
void synchronize(int device);  // negative: the current one
AllocatorStatistics memory_statistics(int device);
std::vector<SegmentSnapshot> memory_snapshot(int device);
std::pair<size_t, size_t> memory_info(int device);  // free, total
void empty_cache();
uintptr_t allocate(int device, size_t bytes, int stream);
void release(uintptr_t address);
void reset_peak(int device);
void reset_accumulated(int device);
void set_memory_limit(int device, uint64_t bytes);
// Pools of memory, by number (csrc/opencl/memory/caching_allocator.h); use_pool returns the thread's one before.
uint64_t new_pool();
void retain_pool(int device, uint64_t pool);
void release_pool(int device, uint64_t pool);
int pool_users(int device, uint64_t pool);
uint64_t use_pool(int device, uint64_t pool);
// csrc/torch/runtime/graph.h; a graph is its address.
uintptr_t graph_new();
void graph_delete(uintptr_t graph);
void graph_capture_begin(uintptr_t graph, uint64_t pool);
void graph_capture_end(uintptr_t graph);
void graph_replay(uintptr_t graph);
void graph_reset(uintptr_t graph);
uint64_t graph_pool(uintptr_t graph);
size_t graph_size(uintptr_t graph);
std::string graph_text(uintptr_t graph);
bool is_capturing();
at::Generator default_generator(int device);
std::map<std::string, uint64_t> fallbacks();
void reset_fallbacks();
std::string fallback_policy();                      // "warn", "silent" or "error"
bool set_fallback_policy(const std::string& name);  // false: no such policy
std::string winograd_mode();                        // "auto", "precise" or "off"
bool set_winograd_mode(const std::string& name);
bool tf32_allowed();  // csrc/ops/core/precision.h
void allow_tf32(bool on);
bool tuning();  // csrc/ops/core/tuning.h
void set_tuning(bool on);
std::string tuning_table(int device);
void clear_tuning(int device);
BuildCounts build_counts();
std::string kernels_ahead();
// Kernels that torch_ocl.inductor wrote (python/torch_ocl/inductor/runtime.py). The handle is one for
// extension::Interface::launch. Where programs are compiled ahead this does not wait; finish_generated_kernel does.
// Errors: BuildError.
void* generated_kernel(int device, const char* program, const char* name, const std::string& source);
void finish_generated_kernel(void* kernel);
int32_t* device_error_buffer(int device);               // what a kernel that reports errors takes
int32_t device_error_code(const std::string& message);  // empty: an index out of range
std::string cache_folder();
program_cache::State cache_state();
bool cache_enabled();
void clear_cache();
size_t write_postponed_programs(double seconds);              // at the end of the process; returns how many still wait
std::vector<std::array<std::string, 4>> environment_table();  // name, default, values, meaning
processors::Facts processor_facts();
processors::Decision pool_decision();
unsigned usable_processors();
processors::Memory host_memory();
std::pair<bool, std::string> self_test(int device);  // passed, what happened

}  // namespace ocl::python

#pragma GCC visibility pop
