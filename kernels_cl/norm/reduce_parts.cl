// Second stage of parameter gradients, both styles: adds partial sums in a fixed order.
// Defines: W_DTYPE (of the gradients), LANES.
#include "common/lanes.clh"

#define W STORAGE(W_DTYPE)
#define EACH(count) for (long i = get_global_id(0); i < (count); i += get_global_size(0))

// Sums over parts of partial[(part * 2 + field) * padded + i].
kernel void add_parts(global const acc* restrict partial, global W* restrict grad_weight, global W* restrict grad_bias,
                      long n, long padded, int parts) {
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
kernel void add_batch(global const acc* restrict sums, global const acc* restrict dots, global const acc* restrict rstd,
                      global W* restrict grad_weight, global W* restrict grad_bias, long batch, long channels,
                      long groups) {
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
