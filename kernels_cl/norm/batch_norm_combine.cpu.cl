// Batch normalisation on CPU runtimes, per-channel steps: a task is CHANNEL_BLOCK channels, vectors of them at a time
// and the last ones singly. Partial results lie as partial[(part * fields + field) * padded + c]. Elsewhere:
// kernels_cl/norm/batch_norm_combine.gpu.cl.
#include "norm/batch_norm.clh"

#define CHANNEL_BLOCK channel_block

// The channels of the task, [c, end): vectors of LANES first, then single ones.
#define TASK_CHANNELS(c, end) long c = (long)get_group_id(0) * CHANNEL_BLOCK, end = MIN_OF(c + CHANNEL_BLOCK, channels);
#define EACH_VECTOR(c, end) for (; c + LANES <= end; c += LANES)
#define EACH_SINGLE(c, end) for (; c < end; ++c)

#define CHANNELS_OF(D, has, p, c, otherwise) ((has) ? LOADXV(D, p, c) : (accv)(otherwise))

// As affine(), of LANES channels; into coefficients = scale[padded], shift[padded].
static inline void put_coefficients(Channels t, long c, accv mean, accv invstd, __global acc* coefficients,
                                    long padded) {
  const accv scale = CHANNELS_OF(W_DTYPE, t.has_weight, t.weight, c, 1) * invstd;
  VSTOREX(scale, 0, coefficients + c);
  VSTOREX(CHANNELS_OF(W_DTYPE, t.has_bias, t.bias, c, 0) - mean * scale, 0, coefficients + padded + c);
}

static inline void put_coefficient(Channels t, long c, acc mean, acc invstd, __global acc* coefficients, long padded) {
  acc scale, shift;
  affine(t, c, mean, invstd, &scale, &shift);
  coefficients[c] = scale;
  coefficients[padded + c] = shift;
}

// As finish_channel(), of LANES channels.
static inline void finish_channels(Channels t, long c, acc count, accv mean, accv squares, UpdateRule rule,
                                   __global acc* coefficients, long padded) {
  const accv invstd = 1 / sqrt(squares / count + rule.eps);
  if (t.has_save_mean) VSTOREX(mean, 0, t.save_mean + c);
  if (t.has_save_invstd) VSTOREX(invstd, 0, t.save_invstd + c);
  if (t.has_running_mean)
    STOREXV(R_DTYPE, t.running_mean, c,
            (1 - rule.momentum) * LOADXV(R_DTYPE, t.running_mean, c) + rule.momentum * mean);
  if (t.has_running_var)
    STOREXV(R_DTYPE, t.running_var, c,
            (1 - rule.momentum) * LOADXV(R_DTYPE, t.running_var, c) + rule.momentum * (squares / (count - 1)));
  put_coefficients(t, c, mean, invstd, coefficients, padded);
}

// (count, mean, centred squares) of two sets together (Chan, Golub and LeVeque), T acc or accv; the counts of all
// channels are the same.
#define ADD_MOMENTS(T, count, mean, squares, n, other_mean, other_squares)              \
  if ((n) != 0) {                                                                       \
    const T delta_ = (other_mean) - (mean);                                             \
    (count) += (n);                                                                     \
    (mean) += delta_ * ((n) / (count));                                                 \
    (squares) += (other_squares) + delta_ * delta_ * (((count) - (n)) * (n) / (count)); \
  }

// Combines the parts' (count, mean, centred squares), updates the statistics, writes coefficients = scale[padded],
// shift[padded].
CPU_KERNEL void combine_statistics(global const acc* partial, global acc* coefficients, CHANNELS_ARGUMENTS,
                                   UpdateRule rule, long channels, long padded, int parts) {
  DECLARE_CHANNELS(tensors);
  TASK_CHANNELS(c, end);
  EACH_VECTOR(c, end) {
    acc count = 0;
    accv mean = (accv)0, squares = (accv)0;
    for (int part = 0; part < parts; ++part) {
      __global const acc* p = partial + 3 * (long)part * padded + c;
      ADD_MOMENTS(accv, count, mean, squares, p[0], VLOADX(0, p + padded), VLOADX(0, p + 2 * padded));
    }
    finish_channels(tensors, c, count, mean, squares, rule, coefficients, padded);
  }
  EACH_SINGLE(c, end) {
    acc count = 0, mean = 0, squares = 0;
    for (int part = 0; part < parts; ++part) {
      __global const acc* p = partial + 3 * (long)part * padded + c;
      ADD_MOMENTS(acc, count, mean, squares, p[0], p[padded], p[2 * padded]);
    }
    acc scale, shift;
    finish_channel(tensors, c, count, mean, squares, rule, &scale, &shift);
    coefficients[c] = scale;
    coefficients[padded + c] = shift;
  }
}

// Inference: coefficients from the running statistics.
CPU_KERNEL void running_coefficients(global acc* coefficients, CHANNELS_ARGUMENTS, UpdateRule rule, long channels,
                                     long padded) {
  DECLARE_CHANNELS(tensors);
  TASK_CHANNELS(c, end);
  EACH_VECTOR(c, end) {
    const accv invstd = 1 / sqrt(LOADXV(R_DTYPE, running_var, c) + rule.eps);
    put_coefficients(tensors, c, LOADXV(R_DTYPE, running_mean, c), invstd, coefficients, padded);
  }
  EACH_SINGLE(c, end) {
    const acc invstd = 1 / sqrt(LOADX(R_DTYPE, running_var, c) + rule.eps);
    put_coefficient(tensors, c, LOADX(R_DTYPE, running_mean, c), invstd, coefficients, padded);
  }
}

// Running statistics as (mean, 1 / deviation) for the backward pass of inference mode.
CPU_KERNEL void running_statistics(global acc* mean, global acc* invstd, global const R* running_mean,
                                   global const R* running_var, acc eps, long channels) {
  TASK_CHANNELS(c, end);
  EACH_VECTOR(c, end) {
    VSTOREX(LOADXV(R_DTYPE, running_mean, c), 0, mean + c);
    VSTOREX(1 / sqrt(LOADXV(R_DTYPE, running_var, c) + eps), 0, invstd + c);
  }
  EACH_SINGLE(c, end) {
    mean[c] = LOADX(R_DTYPE, running_mean, c);
    invstd[c] = 1 / sqrt(LOADX(R_DTYPE, running_var, c) + eps);
  }
}

// Sums (g, g * (x - mean)) of the parts into the gradients of weight and bias and coefficients = k, a, b (each
// [padded]).
CPU_KERNEL void combine_gradients(global const acc* partial, global acc* coefficients, global const W* weight,
                                  global const acc* invstd, global W* grad_weight, global W* grad_bias, acc count,
                                  long channels, long padded, int parts) {
  TASK_CHANNELS(c, end);
  EACH_VECTOR(c, end) {
    accv sum = (accv)0, dot = (accv)0;
    for (int part = 0; part < parts; ++part) {
      __global const acc* p = partial + 2 * (long)part * padded + c;
      sum += VLOADX(0, p);
      dot += VLOADX(0, p + padded);
    }
    const accv deviation = VLOADX(0, invstd + c), k = CHANNELS_OF(W_DTYPE, HAS(weight), weight, c, 1) * deviation;
    if (HAS(grad_weight)) STOREXV(W_DTYPE, grad_weight, c, dot * deviation);
    if (HAS(grad_bias)) STOREXV(W_DTYPE, grad_bias, c, sum);
    VSTOREX(k, 0, coefficients + c);
    VSTOREX(-k * dot * deviation * deviation / count, 0, coefficients + padded + c);
    VSTOREX(-k * sum / count, 0, coefficients + 2 * padded + c);
  }
  EACH_SINGLE(c, end) {
    acc sum = 0, dot = 0;
    for (int part = 0; part < parts; ++part) {
      sum += partial[2 * (long)part * padded + c];
      dot += partial[(2 * (long)part + 1) * padded + c];
    }
    finish_gradient(c, sum, dot, count, weight, HAS(weight), invstd[c], grad_weight, HAS(grad_weight), grad_bias,
                    HAS(grad_bias), coefficients, padded);
  }
}
