#include "base/environment.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace ocl::environment {

static constexpr Variable variables[] = {
    {"TORCH_OCL_VISIBLE_DEVICES", "all",
     "devices to use and their order: a comma-separated list of indices, or parts of a platform's or device's name"},
    {"TORCH_OCL_AUTOLOAD", "auto",
     "whether `import torch` loads torch_ocl: auto (an OpenCL device and no CUDA or XPU device), 1, 0"},
    {"TORCH_OCL_FALLBACK", "warn",
     "what an operator without a kernel does: warn (run on the CPU, warn once), silent, error"},
    {"TORCH_OCL_KERNEL_STYLE", "by device", "cpu or gpu: kernels of that style on every device"},
    {"TORCH_OCL_KERNEL_DIR", "embedded", "folder from which kernel sources are read instead of the embedded ones"},
    {"TORCH_OCL_CACHE_DIR", "$XDG_CACHE_HOME/torch_ocl", "folder of compiled programs and tuning results"},
    {"TORCH_OCL_CACHE", "1", "0 switches the disk cache of compiled programs off"},
    {"TORCH_OCL_UNIFIED_MEMORY", "by self-test",
     "0 treats every device as one that does not share memory with the host"},
    {"TORCH_OCL_DUMP_SOURCE", "", "folder into which the final source of every built program is written"},
    {"TORCH_OCL_BUILD_LOG", "0",
     "1 prints a line for every program that is compiled, with its time, for every kernel at its first use and for "
     "every choice that was measured"},
    {"TORCH_OCL_BUILD_PROCESSES", "one fewer than processors",
     "processes that compile programs for CPU devices beside this one (at most 7 unless set), which meanwhile issues "
     "what needs them; 0: none"},
    {"TORCH_OCL_HOST_THREADS", "the processors of the process",
     "threads that run kernels on PoCL and on Intel's CPU runtime, the calling one among them "
     "(docs/design/cpu-executor.md); 0 leaves all to the drivers' own threads"},
    {"TORCH_OCL_CALL_KERNELS", "by self-test",
     "0 has the driver launch every kernel, also those whose compiled code could be called as a function on CPU "
     "devices (docs/design/cpu-executor.md); 1 tests that in the process itself"},
    {"TORCH_OCL_JOIN", "1",
     "0 runs every elementwise operator by itself, also where several wait one behind another (CPU devices, "
     "docs/design/fusion.md)"},
    {"TORCH_OCL_MEMORY_LIMIT", "0", "most bytes of device memory to reserve on one device (0: no limit)"},
    {"TORCH_OCL_SYNC", "0", "1 waits after every launch, so that errors appear where they happen"},
    {"TORCH_OCL_CONV", "auto", "name of a convolution algorithm to force (docs/design/kernels.md)"},
    {"TORCH_OCL_GEMM", "auto", "name of a gemm algorithm to force (docs/design/kernels.md)"},
    {"TORCH_OCL_ATTENTION", "auto",
     "products computes attention on tensor cores by matrix products with stored scores, also where auto takes the "
     "kernels that keep them in registers (flash)"},
    {"TORCH_OCL_TUNE", "0",
     "1 measures the algorithms of every new gemm and convolution problem once and keeps the quickest "
     "(torch.backends.ocl.benchmark)"},
    {"TORCH_OCL_TUNE_BUDGET", "1000", "milliseconds to spend on measuring one problem"},
    {"TORCH_OCL_BFLOAT16_PAIRS", "by self-test",
     "0 forbids the processor's own products of bfloat16 in gemm and convolutions on CPU runtimes, 1 takes them also "
     "where float32 multiplies faster, emulate runs their kernels in plain OpenCL C"},
    {"TORCH_OCL_TENSOR_CORES", "by self-test",
     "0 forbids products on the tensor cores of NVIDIA's GPUs, mma those by warpgroups; emulate and emulate_warpgroups "
     "run these kernels in plain OpenCL C on devices with gpu kernels"},
    {"TORCH_OCL_VECTOR_FLOATS", "as the driver says",
     "floats in a vector register of a CPU: 16 or more compiles register tiles for AVX-512, fewer for AVX2 and others"},
    {"TORCH_OCL_WINOGRAD", "1", "0 forbids Winograd F(4x4) convolutions (torch.backends.ocl.winograd)"},
};

std::span<const Variable> table() { return variables; }

std::optional<std::string> get(const char* name) {
  for (const Variable& variable : variables)
    if (std::strcmp(variable.name, name) == 0) {
      const char* value = std::getenv(name);
      if (!value || !*value) return std::nullopt;
      return std::string(value);
    }
  throw std::logic_error(std::string(name) + " is not in the table of environment variables");
}

bool flag(const char* name, bool default_value) {
  auto value = get(name);
  if (!value) return default_value;
  return *value != "0" && *value != "false" && *value != "off" && *value != "no";
}

long number(const char* name, long default_value) {
  auto value = get(name);
  if (!value) return default_value;
  char* end = nullptr;
  long result = std::strtol(value->c_str(), &end, 0);
  return end && *end == 0 ? result : default_value;
}

}  // namespace ocl::environment
