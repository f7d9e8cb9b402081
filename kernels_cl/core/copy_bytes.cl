// Contiguous copy (csrc/ops/core/copy_bytes.h): every task its share.
#define ELEMENT uint
#include "common/copy_run.clh"

TASK_CALLABLE(copy_words, (BUFFER(const uint, x), BUFFER(uint, y), PLAIN(long, words), PLAIN(long, share))) {
  OPEN(const uint, x);
  OPEN(uint, y);
  const long begin = (long)get_global_id(0) * share;
  if (begin < words) copy_run(y + begin, x + begin, words - begin < share ? words - begin : share);
}
