// Reports an element of x (dense, n elements) outside [0, 1], NaN included. Serves both styles: item i takes the
// elements of its share.
// Defines: X_DTYPE, LANES.
#include "common/device_errors.clh"
#include "common/lanes.clh"

#define X STORAGE(X_DTYPE)

kernel void check_unit_range(global const X* x, long n, global int* error, int error_code) {
  const long item = get_global_id(0), items = get_global_size(0);
#if CPU_STYLE
  const long start = n * item / items, end = n * (item + 1) / items, step = 1;
#else
  const long start = item, end = n, step = items;
#endif
  int wrong = 0;
  for (long i = start; i < end; i += step) {
    const acc v = LOADX(X_DTYPE, x, i);
    wrong |= !(v >= 0 && v <= 1);
  }
  if (wrong) report_error(error, error_code, 0, 0);
}
