// Kernels that are called as functions by the CPU executor. What a driver does before a kernel begins takes as long as
// a small kernel, and every worker would wait for it; the compiled code is in this process and can be called without
// the driver.
//
// OpenCL C has no addresses of functions. A kernel marked CPU_KERNEL or TASK_KERNEL
// (opencl/program/entry_points.h) comes with a second one, NAME_address, which tells where the function is: by an
// instruction of the processor (PoCL), or from a block, whose literal holds it (Intel's runtime).
#pragma once

#include "opencl/executor.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ocl {

class CompilerProcess;
class Device;
class Kernel;

// The groups [begin, end) of a launch of `count` groups; in every dimension. `memory` stands for __local memory
// (thread_memory).
struct KernelBox {
  uint64_t begin[3], end[3], count[3];
  void* memory;
};
// `arguments`: as Arguments::pack leaves them, pointers as a buffer's address and an offset.
using KernelFunction = void (*)(const void* unused, const void* arguments, const KernelBox* box);

namespace kernel_function {

// What programs begin with where kernels are called.
const char* source();

// Whether the code of this device's compiler can be called: tried by a compiler process first
// (opencl/program/compiler_process.h), from the construction of this object on, then here, where a fault of the
// processor is an answer. The other process must also end as processes do, with status 0, after it has written the
// program as it is written at the end of this one. It is asked for probes that are soon needed as well. Its answer is
// kept in the disk cache. TORCH_OCL_CALL_KERNELS=0: no; 1: tried here alone.
class Test final : public Executor::FunctionTest {
 public:
  Test(Device& device, HostDriver driver);
  ~Test() override;
  bool passed(Device& device) override;

 private:
  void ask_elsewhere(Device& device);

  std::string key_;
  bool here_ = false;  // no need of the process
  std::shared_ptr<CompilerProcess> elsewhere_;
};

// The arguments of one launch as a kernel's function takes them.
class PackedArguments {
 public:
  // From what Arguments::data() and bytes() are; valid as long as this object.
  const void* pack(const void* data, size_t bytes);

 private:
  alignas(64) char fixed_[2048];
  std::vector<std::max_align_t> more_;
};

// Per-thread scratch of at least `bytes`, page-aligned, freed at thread exit. nullptr on failure.
void* thread_memory(size_t bytes);

// The function of a kernel by running NAME_address on this queue; null when the kernel has none, or when nothing keeps
// its code loaded.
// Errors: BuildError, ocl::Error.
KernelFunction find(Kernel& kernel, cl_command_queue queue);

}  // namespace kernel_function

}  // namespace ocl
