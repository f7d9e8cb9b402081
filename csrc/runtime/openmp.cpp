// PyTorch's OpenMP threads for launches of the main thread (HostThreads::set_lender), where PyTorch was built with GCC's libgomp.
#include "opencl/host_threads.h"
#include "opencl/platform.h"

#include <ATen/Parallel.h>

namespace ocl::runtime {

namespace {

// What GCC makes of `#pragma omp parallel num_threads(threads)`. Called by its name in the library that PyTorch uses: to be linked to libgomp could
// bring in a second copy, with threads of its own.
using Region = void (*)(void (*body)(void*), void* context, unsigned threads, unsigned flags);

const Region region = reinterpret_cast<Region>(platform::function_of("libtorch_cpu", "GOMP_parallel"));

const bool registered = [] {
  if (!region) return false;
  HostThreads::set_lender([](void (*body)(void*), void* context, unsigned members) {
    if (at::in_parallel_region() || at::get_num_threads() < static_cast<int>(members)) return false;
    region(body, context, members, 0);
    return true;
  });
  return true;
}();

}  // namespace

}  // namespace ocl::runtime
