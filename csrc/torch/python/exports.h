// The one symbol that libtorch_ocl.so exports: a table of functions for the Python glue (csrc/python), which therefore
// links to nothing of the library and carries no second copy of its state.
#pragma once

#include "opencl/memory/caching_allocator.h"
#include "base/environment.h"
#include "base/processors.h"
#include "opencl/program/program.h"
#include "opencl/program/program_cache.h"

#include <ATen/core/Generator.h>

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ocl::aten {

struct Exports {
  int (*device_count)();
  std::vector<std::string> (*device_problems)();
  const Capabilities& (*capabilities)(int device);
  bool (*cpu_style)(int device);
  bool (*bfloat16_pairs)(int device);        // csrc/opencl/capabilities/bfloat16_pairs.h
  bool (*quick_bfloat16_pairs)(int device);  // they multiply faster than float32
  bool (*tensor_cores)(int device);          // csrc/opencl/capabilities/tensor_cores.h
  const char* (*float_atomics)(int device);  // csrc/opencl/capabilities/float_atomics.h
  int (*current_device)();
  void (*set_device)(int device);
  int (*exchange_device)(int device);
  void (*synchronize)(int device);  // negative: the current one
  AllocatorStatistics (*memory_statistics)(int device);
  std::vector<SegmentSnapshot> (*memory_snapshot)(int device);
  std::pair<size_t, size_t> (*memory_info)(int device);  // free, total
  void (*empty_cache)();
  uintptr_t (*allocate)(int device, size_t bytes, int stream);
  void (*release)(uintptr_t address);
  void (*reset_peak)(int device);
  void (*reset_accumulated)(int device);
  void (*set_memory_limit)(int device, uint64_t bytes);
  at::Generator (*default_generator)(int device);
  std::map<std::string, uint64_t> (*fallbacks)();
  void (*reset_fallbacks)();
  std::string (*fallback_policy)();                      // "warn", "silent" or "error"
  bool (*set_fallback_policy)(const std::string& name);  // false: no such policy
  std::string (*winograd_mode)();                        // "auto", "precise" or "off"
  bool (*set_winograd_mode)(const std::string& name);
  bool (*tf32_allowed)();  // csrc/ops/core/precision.h
  void (*allow_tf32)(bool on);
  bool (*tuning)();  // csrc/ops/core/tuning.h
  void (*set_tuning)(bool on);
  std::string (*tuning_table)(int device);
  void (*clear_tuning)(int device);
  BuildCounts (*build_counts)();
  std::string (*cache_folder)();
  program_cache::State (*cache_state)();
  bool (*cache_enabled)();
  void (*clear_cache)();
  size_t (*write_postponed_programs)(double seconds);  // at the end of the process; returns how many still wait
  std::vector<std::array<std::string, 4>> (*environment_table)();  // name, default, values, meaning
  processors::Facts (*processor_facts)();
  processors::Decision (*pool_decision)();
  unsigned (*usable_processors)();
  processors::Memory (*host_memory)();
  std::pair<bool, std::string> (*self_test)(int device);  // passed, what happened
};

}  // namespace ocl::aten

extern "C" __attribute__((visibility("default"))) const ocl::aten::Exports* torch_ocl_exports();
