// Second stage of parameter gradients, both styles: adds partial sums in a fixed order.
// Defines: W_DTYPE (of the gradients), LANES.
#include "common/lanes.clh"

#define W STORAGE(W_DTYPE)
#define EACH(count) for (long i = get_global_id(0); i < (count); i += get_global_size(0))

// Sums over parts of partial[(part * 2 + field) * padded + i].
__kernel void add_parts(TENSOR(const acc, partial), TENSOR(W, grad_weight), TENSOR(W, grad_bias), long n, long padded,
                        int parts) {
  OPEN_RESTRICT(const acc, partial);
  OPEN_RESTRICT(W, grad_weight);
  OPEN_RESTRICT(W, grad_bias);
  EACH(n) {
    acc w = 0, b = 0;
    for (int part = 0; part < parts; ++part) {
      w += partial[2 * (long)part * padded + i];
      b += partial[(2 * (long)part + 1) * padded + i];
    }
    if (HAS(grad_weight)) STOREX(W_DTYPE, grad_weight, i, w);
    if (HAS(grad_bias)) STOREX(W_DTYPE, grad_bias, i, b);
  }
}

// Group norm: sums over the batch of dots[n * channels + c] * rstd[n, group of c] and sums[n * channels + c].
__kernel void add_batch(TENSOR(const acc, sums), TENSOR(const acc, dots), TENSOR(const acc, rstd),
                        TENSOR(W, grad_weight), TENSOR(W, grad_bias), long batch, long channels, long groups) {
  OPEN_RESTRICT(const acc, sums);
  OPEN_RESTRICT(const acc, dots);
  OPEN_RESTRICT(const acc, rstd);
  OPEN_RESTRICT(W, grad_weight);
  OPEN_RESTRICT(W, grad_bias);
  EACH(channels) {
    acc w = 0, b = 0;
    for (long n = 0; n < batch; ++n) {
      w += dots[n * channels + i] * rstd[n * groups + i / (channels / groups)];
      b += sums[n * channels + i];
    }
    if (HAS(grad_weight)) STOREX(W_DTYPE, grad_weight, i, w);
    if (HAS(grad_bias)) STOREX(W_DTYPE, grad_bias, i, b);
  }
}
