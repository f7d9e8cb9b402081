// Connectionist temporal classification (csrc/ops/loss/ctc.h).
//   state s of a sequence with n labels, 0 <= s <= 2 n: a blank when s is even, else label s / 2
//   alpha[t][s] = logsumexp(alpha[t-1][s], alpha[t-1][s-1], alpha[t-1][s-2] when label s differs from label s-2) +
//   log_probs[t][label s]
//   beta the same from the other end; loss = -logsumexp(alpha[last][2 n], alpha[last][2 n - 1])
//   gradient[t][c] = (exp(p) - exp(logsumexp over states of label c of (alpha + beta) + loss - p)) * grad,  p =
//   log_probs[t][c]
// Grid: alpha and beta one work-group of GROUP (CPU: 1) per sequence; gradient a work-item per (sequence, step).
#include "params/loss.h"
#include "common/types.clh"

#ifndef D
#define D float32
#endif
#ifndef GROUP
#define GROUP 1
#endif
#define V VALUE(D)

typedef struct {
  long steps, labels, states;
  __global const long* targets;
} Sequence;

static inline Sequence sequence_at(__global const long* sequences, __global const long* targets, long n) {
  const Sequence q = {sequences[3 * n], sequences[3 * n + 1], 2 * sequences[3 * n + 1] + 1,
                      targets + sequences[3 * n + 2]};
  return q;
}

static inline long label_of(const Sequence* q, long s, const CtcShape* c) {
  return s % 2 ? q->targets[s / 2 * c->target_stride] : c->blank;
}

static inline V log_prob(__global const V* log_probs, long t, long n, long label, const CtcShape* c) {
  return label >= 0 && label < c->classes
             ? log_probs[t * c->step_stride + n * c->batch_stride + label * c->class_stride]
             : -INFINITY;
}

static inline V log_add(V a, V b) {
  const V most = fmax(a, b), least = fmin(a, b);
  return most == -INFINITY ? most : most + log1p(exp(least - most));
}

#if GROUP > 1
#define STEP_BARRIER barrier(CLK_GLOBAL_MEM_FENCE)
#else
#define STEP_BARRIER
#endif
#define FOR_STATES(s) for (long s = get_local_id(0); s < q.states; s += GROUP)

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void ctc_alpha(global V* loss, global V* log_alpha,
                                                                         global const V* log_probs,
                                                                         global const long* targets,
                                                                         global const long* sequences, CtcShape c) {
  const long n = get_group_id(0);
  const Sequence q = sequence_at(sequences, targets, n);
  __global V* alpha = log_alpha + n * c.steps * c.states;
  for (long t = 0; t < q.steps; ++t) {
    __global const V* before = alpha + (t - 1) * c.states;
    FOR_STATES(s) {
      const long label = label_of(&q, s, &c);
      V sum = -INFINITY;
      if (t == 0) {
        sum = s < 2 ? 0 : sum;
      } else {
        sum = before[s];
        if (s > 0) sum = log_add(sum, before[s - 1]);
        if (s > 1 && s % 2 && label_of(&q, s - 2, &c) != label) sum = log_add(sum, before[s - 2]);
      }
      alpha[t * c.states + s] = sum + log_prob(log_probs, t, n, label, &c);
    }
    STEP_BARRIER;
  }
  if (get_local_id(0) != 0) return;
  if (q.steps == 0) {
    loss[n] = q.labels == 0 ? 0 : INFINITY;
    return;
  }
  __global const V* last = alpha + (q.steps - 1) * c.states;
  loss[n] = -(q.labels > 0 ? log_add(last[q.states - 1], last[q.states - 2]) : last[0]);
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void ctc_beta(global V* log_beta, global const V* log_probs,
                                                                        global const long* targets,
                                                                        global const long* sequences, CtcShape c) {
  const long n = get_group_id(0);
  const Sequence q = sequence_at(sequences, targets, n);
  __global V* beta = log_beta + n * c.steps * c.states;
  for (long t = q.steps - 1; t >= 0; --t) {
    __global const V* after = beta + (t + 1) * c.states;
    FOR_STATES(s) {
      const long label = label_of(&q, s, &c);
      V sum = -INFINITY;
      if (t == q.steps - 1) {
        sum = s >= q.states - 2 ? 0 : sum;
      } else {
        sum = after[s];
        if (s + 1 < q.states) sum = log_add(sum, after[s + 1]);
        if (s + 2 < q.states && s % 2 && label_of(&q, s + 2, &c) != label) sum = log_add(sum, after[s + 2]);
      }
      beta[t * c.states + s] = sum + log_prob(log_probs, t, n, label, &c);
    }
    STEP_BARRIER;
  }
}

kernel void ctc_gradient(global V* grad_log_probs, global const V* grad, global const V* loss,
                         global const V* log_alpha, global const V* log_beta, global const V* log_probs,
                         global const long* targets, global const long* sequences, CtcShape c) {
  const long item = get_global_id(0), t = item / c.batch, n = item - t * c.batch;
  if (t >= c.steps) return;
  const Sequence q = sequence_at(sequences, targets, n);
  __global V* row = grad_log_probs + item * c.classes;
  const bool counts = t < q.steps && !(c.zero_infinity && loss[n] == INFINITY);
  for (long k = 0; k < c.classes; ++k) row[k] = counts ? -INFINITY : 0;
  if (!counts) return;
  const long place = (n * c.steps + t) * c.states;
  for (long s = 0; s < q.states; ++s) {
    const long label = label_of(&q, s, &c);
    if (label >= 0 && label < c.classes) row[label] = log_add(row[label], log_alpha[place + s] + log_beta[place + s]);
  }
  for (long k = 0; k < c.classes; ++k) {
    const V p = log_prob(log_probs, t, n, k, &c);
    row[k] = (exp(p) - exp(row[k] + loss[n] - p)) * grad[n];
  }
}
