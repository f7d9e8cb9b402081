// Batch normalisation, per-channel steps, a group or a work-item to a channel; for CPU runtimes
// kernels_cl/norm/batch_norm_combine.cpu.cl.
// Partial results lie as partial[(part * fields + field) * padded + c].
#include "norm/batch_norm.clh"

// Kernels that combine parts: a group of COMBINERS to a channel, with every so many-th part each.
#define COMBINERS 64
#define COMBINING_KERNEL __kernel __attribute__((reqd_work_group_size(COMBINERS, 1, 1)))

#define EACH_CHANNEL(count) for (long c = get_global_id(0); c < (count); c += get_global_size(0))

// (count, mean, centred squares) of two sets together (Chan, Golub and LeVeque).
static inline void add_moments(acc* count, acc* mean, acc* squares, acc n, acc other_mean, acc other_squares) {
  if (n == 0) return;
  const acc delta = other_mean - *mean;
  *count += n;
  *mean += delta * (n / *count);
  *squares += other_squares + delta * delta * ((*count - n) * n / *count);
}

// Combines the parts' (count, mean, centred squares), updates the statistics, writes coefficients = scale[padded],
// shift[padded].
COMBINING_KERNEL void combine_statistics(global const acc* partial, global acc* coefficients, CHANNELS_ARGUMENTS,
                                         UpdateRule rule, long channels, long padded, int parts) {
  DECLARE_CHANNELS(tensors);
  __local acc counts[COMBINERS], means[COMBINERS], all_squares[COMBINERS];
  const long c = get_group_id(0);
  const int first = get_local_id(0);
  acc count = 0, mean = 0, squares = 0;
  for (int part = first; part < parts; part += COMBINERS) {
    __global const acc* p = partial + 3 * (long)part * padded + c;
    add_moments(&count, &mean, &squares, p[0], p[padded], p[2 * padded]);
  }
  for (int distance = COMBINERS / 2; distance > 0; distance /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    counts[first] = count, means[first] = mean, all_squares[first] = squares;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int other = first + distance;
    if (first < distance) add_moments(&count, &mean, &squares, counts[other], means[other], all_squares[other]);
  }
  if (first > 0) return;
  acc scale, shift;
  finish_channel(tensors, c, count, mean, squares, rule, &scale, &shift);
  coefficients[c] = scale;
  coefficients[padded + c] = shift;
}

// Inference: coefficients from the running statistics.
kernel void running_coefficients(global acc* coefficients, CHANNELS_ARGUMENTS, UpdateRule rule, long channels,
                                 long padded) {
  DECLARE_CHANNELS(tensors);
  EACH_CHANNEL(channels) {
    acc scale, shift;
    affine(tensors, c, LOADX(R_DTYPE, running_mean, c), 1 / sqrt(LOADX(R_DTYPE, running_var, c) + rule.eps), &scale,
           &shift);
    coefficients[c] = scale;
    coefficients[padded + c] = shift;
  }
}

// Running statistics as (mean, 1 / deviation) for the backward pass of inference mode.
kernel void running_statistics(global acc* mean, global acc* invstd, global const R* running_mean,
                               global const R* running_var, acc eps, long channels) {
  EACH_CHANNEL(channels) {
    mean[c] = LOADX(R_DTYPE, running_mean, c);
    invstd[c] = 1 / sqrt(LOADX(R_DTYPE, running_var, c) + eps);
  }
}

// Sums (g, g * (x - mean)) of the parts into the gradients of weight and bias and coefficients = k, a, b (each
// [padded]).
COMBINING_KERNEL void combine_gradients(global const acc* partial, global acc* coefficients, global const W* weight,
                                        global const acc* invstd, global W* grad_weight, global W* grad_bias, acc count,
                                        long channels, long padded, int parts) {
  __local acc sums[COMBINERS], dots[COMBINERS];
  const long c = get_group_id(0);
  const int first = get_local_id(0);
  acc sum = 0, dot = 0;
  for (int part = first; part < parts; part += COMBINERS) {
    sum += partial[2 * (long)part * padded + c];
    dot += partial[(2 * (long)part + 1) * padded + c];
  }
  for (int distance = COMBINERS / 2; distance > 0; distance /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[first] = sum, dots[first] = dot;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first < distance) sum += sums[first + distance], dot += dots[first + distance];
  }
  if (first > 0) return;
  finish_gradient(c, sum, dot, count, weight, HAS(weight), invstd[c], grad_weight, HAS(grad_weight), grad_bias,
                  HAS(grad_bias), coefficients, padded);
}
