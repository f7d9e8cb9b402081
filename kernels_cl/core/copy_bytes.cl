// Contiguous copy (csrc/ops/core/copy_bytes.h): every task its share.
#define ELEMENT uint
#include "common/copy_run.clh"

TASK_KERNEL void copy_words(global const uint* x, global uint* y, long words, long share) {
  const long begin = (long)get_global_id(0) * share;
  if (begin < words) copy_run(y + begin, x + begin, words - begin < share ? words - begin : share);
}
