// What csrc/opencl/capabilities/float_atomics.cpp checks: every work-item adds 1 to x[0], its number to x[1], and NaN
// to x[2].
#define COMBINE_IS_ADD 1
#define COMBINE_VALUES(x, y) ((x) + (y))
#include "common/atomic.clh"
DEFINE_ATOMIC_UPDATE(float32)

kernel void add_to_three(global float* x) {
  atomic_update(x, 1.0f);
  atomic_update(x + 1, (float)get_global_id(0));
  atomic_update(x + 2, NAN);
}
