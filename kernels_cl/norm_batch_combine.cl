// Batch normalisation, per-channel steps of both styles: one work-item per channel (or every get_global_size-th channel).
// Partial results lie as partial[(part * fields + field) * padded + c].
#include "common/norm_batch.clh"

#define EACH_CHANNEL(count) for (long c = get_global_id(0); c < (count); c += get_global_size(0))

// Kernels that combine parts: a work-item per channel on fat devices, elsewhere a group of COMBINERS with every so many-th part each.
#if DEVICE_FAT
#define COMBINING_CHANNEL(count) EACH_CHANNEL(count)
#define COMBINING_KERNEL __kernel
#define FIRST_PART 0
#define NEXT_PART 1
#else
#define COMBINERS 64
#define COMBINING_CHANNEL(count) const long c = get_group_id(0);
#define COMBINING_KERNEL __kernel __attribute__((reqd_work_group_size(COMBINERS, 1, 1)))
#define FIRST_PART (int)get_local_id(0)
#define NEXT_PART COMBINERS
#endif

// (count, mean, centred squares) of two sets together (Chan, Golub and LeVeque).
static inline void add_moments(acc* count, acc* mean, acc* squares, acc n, acc other_mean, acc other_squares) {
  if (n == 0) return;
  const acc delta = other_mean - *mean;
  *count += n;
  *mean += delta * (n / *count);
  *squares += other_squares + delta * delta * ((*count - n) * n / *count);
}

// Combines the parts' (count, mean, centred squares), updates the statistics, writes coefficients = scale[padded], shift[padded].
COMBINING_KERNEL void combine_statistics(TENSOR(const acc, partial), TENSOR(acc, coefficients), CHANNELS_ARGUMENTS, UpdateRule rule, long channels,
                                 long padded, int parts) {
  OPEN(const acc, partial);
  OPEN(acc, coefficients);
  OPEN_CHANNELS(tensors);
#if !DEVICE_FAT
  __local acc counts[COMBINERS], means[COMBINERS], all_squares[COMBINERS];
#endif
  COMBINING_CHANNEL(channels) {
    acc count = 0, mean = 0, squares = 0;
    for (int part = FIRST_PART; part < parts; part += NEXT_PART) {
      __global const acc* p = partial + 3 * (long)part * padded + c;
      add_moments(&count, &mean, &squares, p[0], p[padded], p[2 * padded]);
    }
#if !DEVICE_FAT
    for (int distance = COMBINERS / 2; distance > 0; distance /= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      counts[FIRST_PART] = count, means[FIRST_PART] = mean, all_squares[FIRST_PART] = squares;
      barrier(CLK_LOCAL_MEM_FENCE);
      const int other = FIRST_PART + distance;
      if (FIRST_PART < distance) add_moments(&count, &mean, &squares, counts[other], means[other], all_squares[other]);
    }
    if (FIRST_PART > 0) return;
#endif
    acc scale, shift;
    finish_channel(tensors, c, count, mean, squares, rule, &scale, &shift);
    coefficients[c] = scale;
    coefficients[padded + c] = shift;
  }
}

// Inference: coefficients from the running statistics.
__kernel void running_coefficients(TENSOR(acc, coefficients), CHANNELS_ARGUMENTS, UpdateRule rule, long channels, long padded) {
  OPEN(acc, coefficients);
  OPEN_CHANNELS(tensors);
  EACH_CHANNEL(channels) {
    acc scale, shift;
    affine(tensors, c, LOADX(R_DTYPE, running_mean, c), 1 / sqrt(LOADX(R_DTYPE, running_var, c) + rule.eps), &scale, &shift);
    coefficients[c] = scale;
    coefficients[padded + c] = shift;
  }
}

// Running statistics as (mean, 1 / deviation) for the backward pass of inference mode.
__kernel void running_statistics(TENSOR(acc, mean), TENSOR(acc, invstd), TENSOR(const R, running_mean), TENSOR(const R, running_var), acc eps,
                                 long channels) {
  OPEN(acc, mean);
  OPEN(acc, invstd);
  OPEN(const R, running_mean);
  OPEN(const R, running_var);
  EACH_CHANNEL(channels) {
    mean[c] = LOADX(R_DTYPE, running_mean, c);
    invstd[c] = 1 / sqrt(LOADX(R_DTYPE, running_var, c) + eps);
  }
}

// Sums (g, g * (x - mean)) of the parts into the gradients of weight and bias and coefficients = k, a, b (each [padded]).
COMBINING_KERNEL void combine_gradients(TENSOR(const acc, partial), TENSOR(acc, coefficients), TENSOR(const W, weight), TENSOR(const acc, invstd),
                                TENSOR(W, grad_weight), TENSOR(W, grad_bias), acc count, long channels, long padded, int parts) {
  OPEN(const acc, partial);
  OPEN(acc, coefficients);
  OPEN(const W, weight);
  OPEN(const acc, invstd);
  OPEN(W, grad_weight);
  OPEN(W, grad_bias);
#if !DEVICE_FAT
  __local acc sums[COMBINERS], dots[COMBINERS];
#endif
  COMBINING_CHANNEL(channels) {
    acc sum = 0, dot = 0;
    for (int part = FIRST_PART; part < parts; part += NEXT_PART) {
      sum += partial[2 * (long)part * padded + c];
      dot += partial[(2 * (long)part + 1) * padded + c];
    }
#if !DEVICE_FAT
    for (int distance = COMBINERS / 2; distance > 0; distance /= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      sums[FIRST_PART] = sum, dots[FIRST_PART] = dot;
      barrier(CLK_LOCAL_MEM_FENCE);
      if (FIRST_PART < distance) sum += sums[FIRST_PART + distance], dot += dots[FIRST_PART + distance];
    }
    if (FIRST_PART > 0) return;
#endif
    if (grad_weight) STOREX(W_DTYPE, grad_weight, c, dot * invstd[c]);
    if (grad_bias) STOREX(W_DTYPE, grad_bias, c, sum);
    const Gradient r = gradient_of(weight ? LOADX(W_DTYPE, weight, c) : (acc)1, invstd[c], sum, dot, count);
    coefficients[c] = r.k;
    coefficients[padded + c] = r.a;
    coefficients[2 * padded + c] = r.b;
  }
}
