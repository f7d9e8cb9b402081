// Batch normalisation, per-channel steps of both styles: one work-item per channel (or every get_global_size-th channel).
// Partial results lie as partial[(part * fields + field) * padded + c].
#include "common/norm_batch.clh"

#define EACH_CHANNEL(count) for (long c = get_global_id(0); c < (count); c += get_global_size(0))

// Combines the parts' (count, mean, centred squares), updates the statistics, writes coefficients = scale[padded], shift[padded].
__kernel void combine_statistics(TENSOR(const acc, partial), TENSOR(acc, coefficients), CHANNELS_ARGUMENTS, UpdateRule rule, long channels,
                                 long padded, int parts) {
  OPEN(const acc, partial);
  OPEN(acc, coefficients);
  OPEN_CHANNELS(tensors);
  EACH_CHANNEL(channels) {
    acc count = 0, mean = 0, squares = 0;
    for (int part = 0; part < parts; ++part) {
      __global const acc* p = partial + 3 * (long)part * padded + c;
      const acc n = p[0], delta = p[padded] - mean;
      if (n == 0) continue;
      count += n;
      mean += delta * (n / count);
      squares += p[2 * padded] + delta * delta * ((count - n) * n / count);
    }
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
__kernel void combine_gradients(TENSOR(const acc, partial), TENSOR(acc, coefficients), TENSOR(const W, weight), TENSOR(const acc, invstd),
                                TENSOR(W, grad_weight), TENSOR(W, grad_bias), acc count, long channels, long padded, int parts) {
  OPEN(const acc, partial);
  OPEN(acc, coefficients);
  OPEN(const W, weight);
  OPEN(const acc, invstd);
  OPEN(W, grad_weight);
  OPEN(W, grad_bias);
  EACH_CHANNEL(channels) {
    acc sum = 0, dot = 0;
    for (int part = 0; part < parts; ++part) {
      sum += partial[2 * (long)part * padded + c];
      dot += partial[(2 * (long)part + 1) * padded + c];
    }
    if (grad_weight) STOREX(W_DTYPE, grad_weight, c, dot * invstd[c]);
    if (grad_bias) STOREX(W_DTYPE, grad_bias, c, sum);
    const Gradient r = gradient_of(weight ? LOADX(W_DTYPE, weight, c) : (acc)1, invstd[c], sum, dot, count);
    coefficients[c] = r.k;
    coefficients[padded + c] = r.a;
    coefficients[2 * padded + c] = r.b;
  }
}
