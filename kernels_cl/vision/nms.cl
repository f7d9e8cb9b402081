// Non-maximum suppression (csrc/ops/vision/nms.h).
//   nms_gather     boxes (x1, y1, x2, y2) in the order of their scores, as four arrays of `stride` values
//   nms_overlaps   row i, word w of `mask`: bit b is set when box 64 w + b, which comes after box i, overlaps box i by
//   more than the threshold nms_sweep      one work-group walks the rows in order: a box that no kept box covers is
//   kept, and its row is added to `removed`
// Grid: gather (boxes), overlaps (words, rows), sweep one group of GROUP. W boxes are compared at a time: 16 CPU, 1
// GPU.
#include "common/types.clh"

#ifndef D
#define D float32
#endif
#ifndef A
#define A float32
#endif
#ifndef W
#define W 1
#endif
#ifndef GROUP
#define GROUP 1
#endif
#define V VALUE(A)
#define VW VALUE_V(A, W)
#define ELEMENT STORAGE(D)
#pragma OPENCL FP_CONTRACT OFF  // ties with the threshold fall as on the CPU

kernel void nms_gather(global V* sorted, global const ELEMENT* boxes, global const long* order, long count,
                       long stride) {
  const long i = get_global_id(0);
  if (i >= count) return;
  for (int side = 0; side < 4; ++side) sorted[side * stride + i] = LOAD(D, A, boxes, 4 * order[i] + side);
}

// Bit b: lane b of `flags` is true.
#if W == 16
#define BITS(flags) bits_of(convert_ushort16(flags))
static inline ulong bits_of(ushort16 flags) {
  const ushort16 own = flags & (ushort16)(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768);
  const ushort8 a = own.lo | own.hi;
  const ushort4 b = a.lo | a.hi;
  const ushort2 c = b.lo | b.hi;
  return c.lo | c.hi;
}
#define LOAD_W(p) vload16(0, p)
#else
#define BITS(flags) (ulong)(flags)
#define LOAD_W(p) *(p)
#endif

// `threshold` is the largest V for which x > threshold means the same as for the caller's double.
kernel void nms_overlaps(global ulong* mask, global const V* sorted, long count, long stride, V threshold) {
  const long words = (count + 63) / 64, word = get_global_id(0), i = get_global_id(1);
  if (word >= words || word < i / 64) return;  // words before the diagonal are never read
  __global const V *x1 = sorted, *y1 = sorted + stride, *x2 = sorted + 2 * stride, *y2 = sorted + 3 * stride;
  const V left = x1[i], top = y1[i], right = x2[i], bottom = y2[i], area = (right - left) * (bottom - top);
  ulong bits = 0;
  for (long j = 64 * word, end = MIN_OF(j + 64, count); j < end; j += W) {
    const VW l = LOAD_W(x1 + j), t = LOAD_W(y1 + j), r = LOAD_W(x2 + j), b = LOAD_W(y2 + j);
    const VW width = fmin((VW)right, r) - fmax((VW)left, l), height = fmin((VW)bottom, b) - fmax((VW)top, t);
    const VW common = fmax((VW)0, width) * fmax((VW)0, height);
    bits |= BITS(common / (area + (r - l) * (b - t) - common) > (VW)threshold) << (j & 63);
  }
  if (word == i / 64) bits &= ~0ul << (i & 63) << 1;  // only boxes after i
  mask[i * words + word] = bits;
}

// `removed` has one word per 64 boxes and starts as zeros. kept[0 .. *kept_count) are the kept boxes.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void nms_sweep(global long* kept, global long* kept_count,
                                                                         global ulong* removed,
                                                                         global const ulong* mask,
                                                                         global const long* order, long count) {
  const long words = (count + 63) / 64, lane = get_local_id(0);
  long found = 0;
  for (long i = 0; i < count; ++i) {
    if (removed[i / 64] >> (i & 63) & 1) continue;
    if (lane == 0) kept[found] = order[i];
    ++found;
#if GROUP > 1
    barrier(CLK_GLOBAL_MEM_FENCE);  // nobody changes the word before everybody has read it
#endif
    for (long w = i / 64 + lane; w < words; w += GROUP) removed[w] |= mask[i * words + w];
#if GROUP > 1
    barrier(CLK_GLOBAL_MEM_FENCE);
#endif
  }
  if (lane == 0) *kept_count = found;
}
