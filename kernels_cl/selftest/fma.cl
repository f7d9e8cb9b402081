// Whether programs can call fma(), and it rounds once (csrc/opencl/capabilities/fma.h).
#define FMA_AS_IT_IS
#include "common/memory.clh"

kernel void rest_of_the_square(global float* x) {
  const size_t i = get_global_id(0);
  const float square = x[i] * x[i];
  x[i] = fma(x[i], x[i], -square);
}
