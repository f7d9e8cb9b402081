// How many processors and how much memory this process may use: the one place that answers, for the thread pool, the
// processes that compile, the allocators and the doctor.
//
// Processors. The pool has as many threads as the least of
//   - the processors of the process's affinity mask. This is the main thread's mask, not the caller's; where an OpenMP
//     library has bound the main thread to its first place (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY), the
//     processors of all places belong to it;
//   - the quota of the control groups (control_group.h), rounded to the nearest whole number;
//   - OMP_NUM_THREADS, as for PyTorch's own threads;
//   - what the drivers' own variables allow (POCL_MAX_PTHREAD_COUNT, POCL_CPU_MAX_CU_COUNT,
//     CL_CONFIG_CPU_TBB_NUM_WORKERS).
// Of several ranks that a launcher (torchrun) started on this machine each takes its share of the first two, unless one
// of those variables is set: the launcher's own OMP_NUM_THREADS=1, which it sets for want of anything better, is not
// taken as a wish. TORCH_OCL_HOST_THREADS overrides all of them. torch.set_num_threads() limits launches after it
// (thread_pool.h).
//
// Memory. What the machine has, or less where a control group allows less.
#pragma once

#include <cstdint>
#include <string>

namespace ocl::processors {

// Everything that the decision is made from.
struct Facts {
  unsigned machine = 1;  // processors of the machine that are on
  unsigned allowed = 1;  // those of the process's affinity mask
  double quota = 0;      // processors' worth of time that the control groups give; 0: no limit
  unsigned openmp = 0;   // OMP_NUM_THREADS; 0: not set, or no number
  int64_t asked = -1;    // TORCH_OCL_HOST_THREADS; -1: not set
  unsigned driver = 0;   // the least of the drivers' variables; 0: none is set
  std::string driver_variable;
  unsigned ranks = 1, rank = 0;  // LOCAL_WORLD_SIZE and LOCAL_RANK: this process is one of so many on the machine
  bool torchrun = false;         // whether torchrun started it
};

struct Decision {
  unsigned threads = 1;  // of the pool; 0: kernels are left to the drivers' threads
  std::string reason;    // in words
  bool asked = false;    // whether a variable or a quota says so; false: it is the affinity mask
};

// Pure.
Decision decide(const Facts& facts);

// Of this process, read once.
const Facts& facts();
// The decision for this process. The first call warns where kernels run on one of several processors and nobody asked.
const Decision& pool();
// Processors that may be kept busy, at least 1: as pool(), without the variables of threads that run kernels.
unsigned usable();
// For the drivers' own threads: this rank's share of the processors; 0: the drivers may take what they like, because
// the process is not one of several ranks or somebody has told it otherwise.
unsigned drivers_share();

// ---- memory in bytes; 0: unknown

struct Memory {
  uint64_t physical = 0;   // of the machine
  uint64_t total = 0;      // of the machine or of the control groups, whatever is less
  uint64_t available = 0;  // what can still be written before the system or a group is out of memory; with swap space
};

// Read anew. `root`: as in control_group.h.
Memory memory(const std::string& root);
Memory memory();

// Tests: a folder in the place of the file system's root for memory(). "": the file system.
void set_root(const std::string& folder);

}  // namespace ocl::processors
