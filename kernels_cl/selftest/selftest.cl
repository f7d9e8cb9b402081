// y[i] += 1 for n ints; the start-up self-test of shared memory and of the doctor.
#include "common/memory.clh"

kernel void add_one(global int* y, int n) {
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] += 1;
}
