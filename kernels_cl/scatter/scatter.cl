// Accumulates elements through an index (csrc/ops/index/indexed.h): destination = combine(destination, source), rounded
// to the dtype at each step. COMBINE: 1 add, 2 multiply, 3 minimum, 4 maximum (both propagate NaN). ATOMIC: several
// work-items may meet in one element.
#include "common/types.clh"

#ifndef D
#define D float32
#endif
#ifndef INDEX_DTYPE
#define INDEX_DTYPE int64
#endif
#ifndef COMBINE
#define COMBINE 1
#endif
#ifndef ATOMIC
#define ATOMIC 0
#endif

#define V VALUE(D)
#define ELEMENT STORAGE(D)
#define VALUE_OF(element) CAT(READ_, D)(&(element), 0)

#if COMBINE == 1
#define COMBINE_IS_ADD 1
#define COMBINE_VALUES(x, y) ((x) + (y))
#elif COMBINE == 2
#define COMBINE_VALUES(x, y) CAT(MULTIPLY_, IS_COMPLEX(D))(x, y)
#elif COMBINE == 3
#define COMBINE_VALUES(x, y) (((x) < (y) || (x) != (x)) ? (x) : (y))
#else
#define COMBINE_VALUES(x, y) (((x) > (y) || (x) != (x)) ? (x) : (y))
#endif
#define MULTIPLY_0(x, y) ((x) * (y))
#define MULTIPLY_1(a, b) (V)((a).x * (b).x - (a).y * (b).y, (a).x * (b).y + (a).y * (b).x)

#if ATOMIC
#include "common/atomic.clh"
DEFINE_ATOMIC_UPDATE(D)
#define UPDATE(d, s)                                        \
  do {                                                      \
    const ELEMENT s_ = (s);                                 \
    atomic_update((__global STORAGE(D)*)(d), VALUE_OF(s_)); \
  } while (0)
#else
#define UPDATE(d, s)                                       \
  do {                                                     \
    __global STORAGE(D)* p_ = (__global STORAGE(D)*)(d);   \
    const ELEMENT s_ = (s);                                \
    const V old_ = LOAD(D, D, p_, 0), new_ = VALUE_OF(s_); \
    STORE(D, D, p_, 0, COMBINE_VALUES(old_, new_));        \
  } while (0)
#endif

#if CPU_STYLE && !IS_COMPLEX(D)
#define UPDATE_ROW(d, s, n) update_row((__global STORAGE(D)*)(d), (__global const STORAGE(D)*)(s), n)
static inline void update_row(__global STORAGE(D) * d, __global const STORAGE(D) * s, long n) {
  long j = 0;
  for (; j + 16 <= n; j += 16) {
    const VALUE_V(D, 16) x = LOADV(D, D, 16, d, j), y = LOADV(D, D, 16, s, j);
    STOREV(D, D, 16, d, j, COMBINE_VALUES(x, y));
  }
  for (; j < n; ++j) {
    const V x = LOAD(D, D, d, j), y = LOAD(D, D, s, j);
    STORE(D, D, d, j, COMBINE_VALUES(x, y));
  }
}
#endif

#include "index/indexed.clh"

#if CPU_STYLE
CPU_KERNEL void scatter_cpu(INDEXED_PARAMETERS) {
  const IndexedArguments a = INDEXED_ARGUMENTS;
  indexed_task(&walk, a, get_group_id(0), a0, a1);
}
#else
kernel void scatter_gpu(INDEXED_PARAMETERS) {
  SHARE(IndexedWalk, walk, shared);
  const IndexedArguments a = INDEXED_ARGUMENTS;
  indexed_item(shared, a, get_global_id(0), a0, a1);
}
#endif
