// Negative log likelihood. input is [N, C, P] (strides given), target int64 [N, P], weight [C] or null:
//   l(n, p) = -weight[t] * input[n, t, p], t = target[n, p]; 0 where t = ignore_index; NaN and an error report where t
//   is no class.
// Serves both styles: loops over elements with a two-level sum per work-item, a tree over the work-group (size 1 in the
// CPU style),
// then one work-group adds the groups (size 1: in order).
// Defines: X_DTYPE, LANES.
// Programs: nll_reduce nll_finish nll_backward_cpu | nll_elements | nll_backward
#include "params/loss.h"
#include "common/programs.clh"
#include "common/device_errors.clh"
#include "common/divide.clh"
#include "common/lanes.clh"

#define X STORAGE(X_DTYPE)
#define MOST_ITEMS 256
enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

// Loss and weight of element i.
static inline acc loss_of(LossShape s, __global const X* x, __global const long* target, __global const X* weight,
                          int has_weight, long i, acc* w, __global int* error, int error_code) {
  const long t = target[i], n = i / s.inner, p = i - n * s.inner;
  *w = 0;
  if (t == s.ignore_index) return 0;
  if (t < 0 || t >= s.classes) {
    *w = NAN;
    report_error(error, error_code, t, s.classes);
    return NAN;
  }
  *w = has_weight ? LOADX(X_DTYPE, weight, t) : (acc)1;
  return -LOADX(X_DTYPE, x, n * s.batch_stride + t * s.class_stride + p * s.inner_stride) * *w;
}

static inline void put_total(__global X* y, __global X* total_weight, acc loss, acc weight, int reduction) {
  STOREX(X_DTYPE, y, 0, reduction == REDUCE_MEAN ? loss / weight : loss);
  STOREX(X_DTYPE, total_weight, 0, weight);
}

// Sums over the work-group, whose size is a power of two, in its first work-item.
static inline void add_over_group(__local acc* shared, acc* loss, acc* weights) {
  const int item = get_local_id(0);
  shared[item] = *loss;
  shared[MOST_ITEMS + item] = *weights;
  for (int half_ = get_local_size(0) / 2; half_ > 0; half_ /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < half_) {
      shared[item] += shared[item + half_];
      shared[MOST_ITEMS + item] += shared[MOST_ITEMS + item + half_];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  *loss = shared[0];
  *weights = shared[MOST_ITEMS];
}

#if HOLDS(1)
kernel void nll_elements(global const X* x, global const long* target, global const X* weight, global X* y,
                         global X* total_weight, LossShape s, global int* error, int error_code) {
  acc w;
  for (long i = get_global_id(0); i < s.batch * s.inner; i += get_global_size(0))
    STOREX(X_DTYPE, y, i, loss_of(s, x, target, weight, HAS(weight), i, &w, error, error_code));
  if (get_global_id(0) == 0) STOREX(X_DTYPE, total_weight, 0, 0);
}
#endif

#if HOLDS(0)
// partial[0 .. groups): losses, partial[groups .. 2 groups): weights. A single group finishes by itself.
kernel void nll_reduce(global const X* x, global const long* target, global const X* weight, global X* y,
                       global X* total_weight, global acc* partial, LossShape s, global int* error, int error_code) {
  __local acc shared[2 * MOST_ITEMS];
  const long total = s.batch * s.inner, groups = get_num_groups(0), group = get_group_id(0), items = get_local_size(0),
             item = get_local_id(0);
  acc loss = 0, weights = 0, block_loss = 0, block_weights = 0;
  int counted = 0;
  const long end = total * (group + 1) / groups;
  for (long i = total * group / groups + item; i < end; i += items) {
    acc w;
    block_loss += loss_of(s, x, target, weight, HAS(weight), i, &w, error, error_code);
    block_weights += w;
    if (++counted == 128) {  // blocked sum: the error grows with the square root
      loss += block_loss, weights += block_weights;
      block_loss = block_weights = 0;
      counted = 0;
    }
  }
  loss += block_loss, weights += block_weights;
  add_over_group(shared, &loss, &weights);
  if (item != 0) return;
  if (groups == 1) {
    put_total(y, total_weight, loss, weights, s.reduction);
  } else {
    partial[group] = loss;
    partial[groups + group] = weights;
  }
}

kernel void nll_finish(global const acc* partial, global X* y, global X* total_weight, int groups, int reduction) {
  __local acc shared[2 * MOST_ITEMS];
  acc loss = 0, weight = 0;
  for (int i = get_local_id(0); i < groups; i += get_local_size(0)) loss += partial[i], weight += partial[groups + i];
  add_over_group(shared, &loss, &weight);
  if (get_local_id(0) == 0) put_total(y, total_weight, loss, weight, reduction);
}
#endif

// dx (dense [N, C, P]) = -weight[t] * g at class t, else 0; g is divided by total_weight for the mean. Group ids:
// (piece of the
// inner dimension, plane) for inner > 1; (range of rows) for inner = 1.
static inline acc scale_of(__global const X* g, __global const X* total_weight, int reduction) {
  if (reduction == REDUCE_NONE) return 0;
  const acc v = LOADX(X_DTYPE, g, 0);
  return reduction == REDUCE_MEAN ? v / LOADX(X_DTYPE, total_weight, 0) : v;
}

#if HOLDS(2)
kernel void nll_backward(global const X* g, global const long* target, global const X* weight,
                         global const X* total_weight, global X* dx, LossShape s) {
  const acc scale = scale_of(g, total_weight, s.reduction);
  for (long i = get_global_id(0); i < s.batch * s.classes * s.inner; i += get_global_size(0)) {
    const long plane = divide(i, s.inner), p = i - plane * s.inner, n = divide(plane, s.classes),
               c = plane - n * s.classes, at = n * s.inner + p;
    acc v = 0;
    if (target[at] == c && c != s.ignore_index)
      v = -(s.reduction == REDUCE_NONE ? LOADX(X_DTYPE, g, at) : scale) *
          (HAS(weight) ? LOADX(X_DTYPE, weight, c) : (acc)1);
    STOREX(X_DTYPE, dx, i, v);
  }
}
#endif

#if HOLDS(0)
// Fat: planes [n, c] of a task, lanes along the inner dimension; with inner = 1 rows are cleared and one class is set.
CPU_KERNEL void nll_backward_cpu(global const X* g, global const long* target, global const X* weight,
                                 global const X* total_weight, global X* dx, LossShape s) {
  const acc scale = scale_of(g, total_weight, s.reduction);
  const long rows = s.inner == 1 ? s.batch : s.batch * s.classes, group = get_group_id(0), groups = get_num_groups(0);
  const long width = s.inner == 1 ? s.classes : s.inner;
  for (long r = rows * group / groups; r < rows * (group + 1) / groups; ++r) {
    __global X* out = dx + r * width;
    if (s.inner == 1) {
      long i = 0;
      for (; i + LANES <= width; i += LANES) STOREXV(X_DTYPE, out, i, (accv)0);
      for (; i < width; ++i) STOREX(X_DTYPE, out, i, 0);
      const long t = target[r];
      if (t != s.ignore_index && t >= 0 && t < width)
        STOREX(X_DTYPE, out, t,
               -(s.reduction == REDUCE_NONE ? LOADX(X_DTYPE, g, r) : scale) *
                   (HAS(weight) ? LOADX(X_DTYPE, weight, t) : (acc)1));
      continue;
    }
    const long n = r / s.classes, c = r % s.classes;
    const acc w = HAS(weight) ? LOADX(X_DTYPE, weight, c) : (acc)1;
    const maskv used = (maskv)(c != s.ignore_index ? -1 : 0);
    for (long i = 0; i < width; i += LANES) {
      const long at = n * width + i;
      const accv v = s.reduction == REDUCE_NONE ? LOADXV(X_DTYPE, g, at) : (accv)scale;
      const maskv hit = (CONVERT_MASKV(CAT(vload, LANES)(0, target + at)) == (maskv)c) & used;
      const accv d = hit ? v * -w : (accv)0;
      if (i + LANES <= width) {
        STOREXV(X_DTYPE, out, i, d);
      } else {
        STORE_FIRST(X_DTYPE, out, i, d, width - i);
      }
    }
  }
}
#endif
