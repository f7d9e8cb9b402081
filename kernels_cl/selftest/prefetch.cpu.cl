// Whether kernels of this device can name memory that they will read soon (csrc/opencl/capabilities/prefetch.h).
#define PREFETCH 1
#include "common/memory.clh"

kernel void prefetch_and_add(global float* x) {
  const size_t i = get_global_id(0);
  PREFETCH_FIRST(x + i + 16);
  PREFETCH_SECOND(x + i - 4096);  // any address may be named
  x[i] += 1;
}
