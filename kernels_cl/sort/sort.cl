// Stable sorts of the rows of a strided tensor. An element is (key, index): the key is an unsigned integer in the order
// of the values (NaN last, -0 == 0, complemented when descending), so that comparing elements as a whole is a stable
// sort whatever the algorithm. Keys of up to 32 bits share one ulong with the index, 64-bit keys make a ulong2.
//   IN, IN_BITS (32 or 64: width of the key), DESCENDING
// Blocks of every row are sorted (CPU: radix sort, least significant digit first; GPU: bitonic network in local
// memory), then merged pairwise, each work-item (CPU) or work-group (GPU) finding its part of the output by a search
// along the merge path (Odeh, Green, Mwassi, Shmueli, Birk: Merge Path, 2012).
#include "common/divide.clh"
#include "sort/keys.clh"

#if CPU_STYLE

static inline void insertion_sort(__global ELEMENT* a, long n) {
  for (long i = 1; i < n; ++i) {
    const ELEMENT e = a[i];
    long j = i;
    for (; j > 0 && LESS(e, a[j - 1]); --j) a[j] = a[j - 1];
    a[j] = e;
  }
}

#define DIGITS (IN_BITS / 8)

// Sorts a[0, n) by key with b as scratch; the result is in a.
static inline void radix_sort(__global ELEMENT* a, __global ELEMENT* b, long n) {
  uint count[DIGITS][256];
  for (int d = 0; d < DIGITS; ++d)
    for (int i = 0; i < 256; ++i) count[d][i] = 0;
  for (long i = 0; i < n; ++i) {
    KEY key = KEY_OF(a[i]);
    for (int d = 0; d < DIGITS; ++d, key >>= 8) ++count[d][key & 255];
  }
  __global ELEMENT* from = a;
  __global ELEMENT* to = b;
  for (int d = 0; d < DIGITS; ++d) {
    if (count[d][(KEY_OF(from[0]) >> (8 * d)) & 255] == n) continue;  // all digits equal
    uint sum = 0;
    for (int i = 0; i < 256; ++i) {
      const uint c = count[d][i];
      count[d][i] = sum;
      sum += c;
    }
    for (long i = 0; i < n; ++i) {
      const ELEMENT e = from[i];
      to[count[d][(KEY_OF(e) >> (8 * d)) & 255]++] = e;
    }
    __global ELEMENT* swap = from;
    from = to;
    to = swap;
  }
  if (from != a)
    for (long i = 0; i < n; ++i) a[i] = from[i];
}

// Number of leading elements of the row's order that can be among the first `keep`: packs them to a, in the order of x.
// One histogram over the upper 11 bits of the keys finds the bucket in which the last of them lies.
static inline long pack_candidates(__global ELEMENT* a, INPUT x, long stride, long n, long keep) {
  uint count[2048];
  for (int i = 0; i < 2048; ++i) count[i] = 0;
  for (long i = 0; i < n; ++i) ++count[key_of(READ(IN, x, i * stride)) >> (IN_BITS - 11)];
  long seen = 0;
  KEY bucket = 0;
  while (bucket < 2047 && (seen += count[bucket]) < keep) ++bucket;
  long m = 0;
  for (long i = 0; i < n; ++i) {
    const KEY key = key_of(READ(IN, x, i * stride));
    if (key >> (IN_BITS - 11) <= bucket) a[m++] = PACK(key, i);
  }
  return m;
}

// The first `keep` elements of the row's order to a, sorted: those seen so far are kept sorted, and few of the others
// are less than the last of
// them. An element that comes later is never less than an equal one.
#define MOST_INSERTED 16
static inline void insert_first(__global ELEMENT* a, INPUT x, long stride, long n, long keep) {
  for (long i = 0; i < keep; ++i) a[i] = PACK(key_of(READ(IN, x, i * stride)), i);
  insertion_sort(a, keep);
  KEY worst = KEY_OF(a[keep - 1]);
  for (long i = keep; i < n; ++i) {
    const KEY key = key_of(READ(IN, x, i * stride));
    if (key >= worst) continue;
    const ELEMENT e = PACK(key, i);
    long j = keep - 1;
    for (; j > 0 && LESS(e, a[j - 1]); --j) a[j] = a[j - 1];
    a[j] = e;
    worst = KEY_OF(a[keep - 1]);
  }
}

// A task is one block of one row; a[row][n] and b[row][n]. With keep < n there is one block, and only the first `keep`
// elements of a are wanted.
CPU_KERNEL void sort_blocks(global const STORAGE(IN) * x, global ELEMENT* a, global ELEMENT* b, SortShape shape) {
  SHARE(SortShape, shape, shared);
  const long task = get_global_id(0), row = task / shape.blocks, begin = task % shape.blocks * shape.block;
  const long end = MIN_OF(begin + shape.block, shape.n);
  INPUT p = x + offset_of(row, shape.kept, shared->kept_size, shared->kept_x);
  a += row * shape.n + begin;
  b += row * shape.n + begin;
  long m = end - begin;
  if (shape.blocks == 1 && shape.keep <= MOST_INSERTED && shape.keep <= m / 8) {
    insert_first(a, p, shape.x_stride, m, shape.keep);
    return;
  }
  if (shape.blocks == 1 && m >= 4096 && shape.keep <= m / 8)
    m = pack_candidates(a, p, shape.x_stride, m, shape.keep);
  else
    for (long i = begin; i < end; ++i) a[i - begin] = PACK(key_of(READ(IN, p, i * shape.x_stride)), i);
  if (m <= 32)
    insertion_sort(a, m);
  else
    radix_sort(a, b, m);
}

#else
#define GROUP (8192 / IN_BITS)
#define HELD 8  // elements of a work-item
#define BLOCK (GROUP * HELD)
#define AT(i) \
  ((i) + ((i) >> 4))  // neighbouring work-items' runs of HELD elements lie in different banks of local memory

#define EXCHANGES(distance, up)                                                                                      \
  _Pragma("unroll") for (int m = 0; m < HELD; ++m) if (!(m & (distance)) && LESS(e[m + (distance)], e[m]) == (up)) { \
    const ELEMENT swap = e[m];                                                                                       \
    e[m] = e[m + (distance)];                                                                                        \
    e[m + (distance)] = swap;                                                                                        \
  }
#define TAKE(first, step) _Pragma("unroll") for (int m = 0; m < HELD; ++m) e[m] = s[AT((first) + m * (step))];
#define PUT(first, step) _Pragma("unroll") for (int m = 0; m < HELD; ++m) s[AT((first) + m * (step))] = e[m];

// Bitonic network over s[AT(0)] .. s[AT(size - 1)], size a power of two from HELD to HELD * GROUP: work-items do up to
// three steps in registers, on elements that differ in three bits of their places.
static inline void sort_by_eights(__local ELEMENT* s, int size) {
  const int t = get_local_id(0);
  const bool busy = HELD * t < size;
  ELEMENT e[HELD];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (busy) {
    const bool up = (t & 1) == 0;
    TAKE(HELD * t, 1)
    EXCHANGES(1, (m & 2) == 0)
    EXCHANGES(2, (m & 4) == 0)
    EXCHANGES(1, (m & 4) == 0)
    EXCHANGES(4, up)
    EXCHANGES(2, up)
    EXCHANGES(1, up)
    PUT(HELD * t, 1)
  }
  for (int length = 2 * HELD; length <= size; length *= 2)
    for (int step = length / 2; step > 0;) {
      const int left = 32 - clz((uint)step), steps = left % 3 ? left % 3 : 3, low = step / 4,
                first = (t & (low - 1)) | (t & ~(low - 1)) << 3;
      const bool up = (first & length) == 0;
      barrier(CLK_LOCAL_MEM_FENCE);
      if (busy) {
        TAKE(first, low)
        EXCHANGES(4, up)
        if (steps > 1) EXCHANGES(2, up)
        if (steps > 2) EXCHANGES(1, up)
        PUT(first, low)
      }
      step >>= steps;
    }
  barrier(CLK_LOCAL_MEM_FENCE);
}

// A group sorts one block of BLOCK elements (or a shorter row, padded to a power of two).
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void sort_blocks(global const STORAGE(IN) * x,
                                                                           global ELEMENT* a, global ELEMENT* b,
                                                                           SortShape shape) {
  SHARE(SortShape, shape, shared);
  __local ELEMENT s[AT(BLOCK)];
  const long task = get_group_id(0), row = task / shape.blocks, begin = task % shape.blocks * shape.block;
  const int id = get_local_id(0), n = (int)(MIN_OF(begin + shape.block, shape.n) - begin);
  INPUT p = x + offset_of(row, shape.kept, shared->kept_size, shared->kept_x);
  int size = HELD;
  while (size < n) size *= 2;
  for (int i = id; i < size; i += GROUP)
    s[AT(i)] = i < n ? PACK(key_of(READ(IN, p, (begin + i) * shape.x_stride)), begin + i) : LAST_ELEMENT;
  sort_by_eights(s, size);
  for (int i = id; i < n; i += GROUP) a[row * shape.n + begin + i] = s[AT(i)];
}
#endif

#if CPU_STYLE
// Merges neighbouring runs of `width` elements of every row of a into b. A work-item writes `part` elements of one pair
// of runs.
CPU_KERNEL void sort_merge(global const ELEMENT* a, global ELEMENT* b, long n, long width, long part, long parts,
                           long pairs, long items) {
  const long id = get_global_id(0);
  if (id >= items) return;
  const long row = id / (pairs * parts), pair = id / parts % pairs;
  const long first = pair * 2 * width, middle = MIN_OF(first + width, n), end = MIN_OF(first + 2 * width, n);
  const long begin = id % parts * part, total = end - first;
  if (begin >= total) return;
  __global const ELEMENT* left = a + row * n + first;
  __global const ELEMENT* right = a + row * n + middle;
  const long lefts = middle - first, rights = end - middle;
  long low = MAX_OF(0L, begin - rights), high = MIN_OF(begin, lefts);
  while (low < high) {  // how many of the first `begin` come from the left
    const long i = (low + high) / 2;
    if (LESS(left[i], right[begin - 1 - i]))
      low = i + 1;
    else
      high = i;
  }
  long i = low, j = begin - low;
  __global ELEMENT* out = b + row * n + first;
  const long stop = MIN_OF(begin + part, total);
  for (long k = begin; k < stop; ++k) {
    const bool take_left = j >= rights || (i < lefts && LESS(left[i], right[j]));
    out[k] = take_left ? left[i++] : right[j++];
  }
}

#else
#define PROBES (GROUP / 2)

// How many of the first `diagonal` elements of two merged runs come from the left one, for two diagonals: each half of
// the group looks for one, at PROBES places at a time. The results are bounds[0] and bounds[2].
static inline void split_runs(__global const ELEMENT* left, __global const ELEMENT* right, long lefts, long rights,
                              long diagonal, __local int* flags, __local long* bounds) {
  const int id = get_local_id(0), t = id % PROBES;
  __local long* own = bounds + 2 * (id / PROBES);
  if (t == 0) own[0] = MAX_OF(0L, diagonal - rights), own[1] = MIN_OF(diagonal, lefts);
  barrier(CLK_LOCAL_MEM_FENCE);
  while (bounds[0] < bounds[1] || bounds[2] < bounds[3]) {
    const long low = own[0], high = own[1], step = (high - low + PROBES - 1) / PROBES, at = low + t * step;
    const int from_left = at < high && LESS(left[at], right[diagonal - 1 - at]);
    flags[id] = from_left;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t == 0 && !from_left) own[1] = low;
    if (from_left && (t == PROBES - 1 || !flags[id + 1])) own[0] = at + 1, own[1] = MIN_OF(at + step, high);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

// Merges elements [0, lefts) and [lefts, count) of s, which are at AT(i), in place.
static inline void merge_tile(__local ELEMENT* s, int lefts, int count) {
  const int begin = MIN_OF((int)get_local_id(0) * HELD, count), rights = count - lefts;
  int low = MAX_OF(0, begin - rights), high = MIN_OF(begin, lefts);
  while (low < high) {
    const int i = (low + high) / 2, j = lefts + begin - 1 - i;
    if (LESS(s[AT(i)], s[AT(j)]))
      low = i + 1;
    else
      high = i;
  }
  int i = low, j = lefts + begin - low;
  const int last = count - 1;
  ELEMENT left = s[AT(MIN_OF(i, last))], right = s[AT(MIN_OF(j, last))], e[HELD];
#pragma unroll
  for (int k = 0; k < HELD; ++k) {
    const bool take_left = j >= count || (i < lefts && LESS(left, right));
    e[k] = take_left ? left : right;
    i += take_left;
    j += !take_left;
    const int at = MIN_OF(take_left ? i : j, last);
    const ELEMENT next = s[AT(at)];
    left = take_left ? next : left;
    right = take_left ? right : next;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
  for (int k = 0; k < HELD; ++k)
    if (begin + k < count) s[AT(begin + k)] = e[k];
  barrier(CLK_LOCAL_MEM_FENCE);
}

// The same by groups: one writes BLOCK elements of one pair of runs, merged in local memory, of `tiles` such parts.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void sort_merge(global const ELEMENT* a, global ELEMENT* b,
                                                                          long n, long width, long tiles, long pairs) {
  __local ELEMENT s[AT(BLOCK)];
  __local int flags[GROUP];
  __local long bounds[4];
  const int id = get_local_id(0);
  const long task = get_group_id(0), row = task / (pairs * tiles), pair = task / tiles % pairs;
  const long first = pair * 2 * width, middle = MIN_OF(first + width, n), end = MIN_OF(first + 2 * width, n);
  const long begin = task % tiles * BLOCK, stop = MIN_OF(begin + BLOCK, end - first);
  if (begin >= stop) return;
  __global const ELEMENT* left = a + row * n + first;
  __global const ELEMENT* right = a + row * n + middle;
  split_runs(left, right, middle - first, end - middle, id < PROBES ? begin : stop, flags, bounds);
  const long left_from = bounds[0], right_from = begin - left_from;
  const int lefts = (int)(bounds[2] - left_from), count = (int)(stop - begin);
  for (int i = id; i < count; i += GROUP) s[AT(i)] = i < lefts ? left[left_from + i] : right[right_from + i - lefts];
  barrier(CLK_LOCAL_MEM_FENCE);
  merge_tile(s, lefts, count);
  __global ELEMENT* out = b + row * n + first + begin;
  for (int i = id; i < count; i += GROUP) out[i] = s[AT(i)];
}
#endif

// values[row, i] = x[row, index], indices[row, i] = index for the first `keep` sorted elements.
TASK_KERNEL void sort_write(global const RAW* x, global const ELEMENT* a, global RAW* values, global long* indices,
                            SortShape shape, long per_item) {
  SHARE(SortShape, shape, shared);
  const long total = shape.rows * shape.keep, begin = get_global_id(0) * per_item,
             end = MIN_OF(begin + per_item, total);
  for (long t = begin; t < end;) {
    const long row = divide(t, shape.keep), skip = t - row * shape.keep, n = MIN_OF(shape.keep - skip, end - t);
    BITS px = x + offset_of(row, shape.kept, shared->kept_size, shared->kept_x);
    const long at_values =
        offset_of(row, shape.kept, shared->kept_size, shared->kept_values) + skip * shape.values_stride;
    const long at_indices =
        offset_of(row, shape.kept, shared->kept_size, shared->kept_indices) + skip * shape.indices_stride;
    __global const ELEMENT* e = a + row * shape.n + skip;
    for (long i = 0; i < n; ++i) {
      const long index = INDEX_OF(e[i]);
      if (shape.has_values) values[at_values + i * shape.values_stride] = px[index * shape.x_stride];
      indices[at_indices + i * shape.indices_stride] = index;
    }
    t += n;
  }
}

#define SELECT_KTH 0
#define SELECT_MEDIAN 1
#define SELECT_NANMEDIAN 2
#define SELECT_MODE 3

// One element of every sorted (ascending) row.
kernel void sort_select(global const RAW* x, global const ELEMENT* a, global RAW* values, global long* indices,
                        SortShape shape, int selection, long k) {
  SHARE(SortShape, shape, shared);
  const long row = get_global_id(0), n = shape.n;
  if (row >= shape.rows) return;
  __global const ELEMENT* e = a + row * n;
  long at = k - 1;
  if (selection == SELECT_MEDIAN || selection == SELECT_NANMEDIAN) {
    long low = 0, high = n;  // first NaN
    while (low < high) {
      const long middle = (low + high) / 2;
      if (is_nan_key(KEY_OF(e[middle])))
        high = middle;
      else
        low = middle + 1;
    }
    at = selection == SELECT_MEDIAN && low < n ? low : MAX_OF(low - 1, 0L) / 2;
  } else if (selection == SELECT_MODE) {
    long longest = 0;
    for (long i = 0; i < n;) {
      long j = i + 1;
      while (j < n && KEY_OF(e[j]) == KEY_OF(e[i])) ++j;
      if (j - i > longest) longest = j - i, at = j - 1;
      i = j;
    }
  }
  const long index = INDEX_OF(e[at]);
  BITS px = x + offset_of(row, shape.kept, shared->kept_size, shared->kept_x);
  values[offset_of(row, shape.kept, shared->kept_size, shared->kept_values)] = px[index * shape.x_stride];
  indices[offset_of(row, shape.kept, shared->kept_size, shared->kept_indices)] = index;
}
