// One step of SGD, Adam, AdamW or Adagrad on lists of tensors of one dtype. All elements are read and written once.
// Constants and lists: csrc/ops/optimizer/optimizer.cpp. EXTRA 0: learning rate (float32), 1: gradient scale, 2:
// found_inf; each may be
// absent. With a gradient scale the unscaled gradient is written back; with found_inf != 0 nothing changes.
#include "foreach/multi_tensor.clh"

#ifndef X_DTYPE
#define X_DTYPE float32
#endif
#ifndef MOMENTUM
#define MOMENTUM 0
#endif
#ifndef AMSGRAD
#define AMSGRAD 0
#endif

#define T STORAGE(X_DTYPE)
#define READ(p) GET_LANES(X_DTYPE, C_DTYPE, p, i)
#define WRITE(p, v) PUT_LANES(X_DTYPE, C_DTYPE, p, i, end, v)

#define STEP_BEGIN                                                             \
  MULTI_TENSOR_CHUNK;                                                          \
  if (HAS_EXTRA(2) && *EXTRA(const float, 2) != 0) return;                     \
  const REAL lr = HAS_EXTRA(0) ? (REAL) * EXTRA(const float, 0) : CONSTANT(0); \
  const REAL weight_decay = CONSTANT(1), sign = CONSTANT(2);                   \
  const int scaled = HAS_EXTRA(1);                                             \
  const REAL unscale = scaled ? 1 / (REAL) * EXTRA(const float, 1) : 1;        \
  __global T* param = LIST(T, 0);                                              \
  __global T* grad = LIST(T, 1)

// The gradient as the formulas use it: unscaled, negated when maximising.
#define STEP_GRADIENT    \
  REALS p = READ(param); \
  REALS g = READ(grad);  \
  if (scaled) {          \
    g *= unscale;        \
    WRITE(grad, g);      \
  }                      \
  g *= sign

#ifdef SGD
// CONSTANT 3: momentum, 4: 1 - dampening, 5: nesterov, 6: first step (the buffer starts as the gradient)
TASK_KERNEL void sgd(MULTI_TENSOR_ARGUMENTS) {
  STEP_BEGIN;
#if MOMENTUM
  __global T* buffer = LIST(T, 2);
  const REAL momentum = CONSTANT(3), keep = CONSTANT(4);
  const int nesterov = CONSTANT(5) != 0, first = CONSTANT(6) != 0;
#endif
  FOR_ELEMENTS(i) {
    STEP_GRADIENT;
    g += weight_decay * p;
#if MOMENTUM
    REALS v = g;
    if (!first) v = momentum * READ(buffer) + keep * g;
    WRITE(buffer, v);
    g = nesterov ? g + momentum * v : v;
#endif
    p -= lr * g;
    WRITE(param, p);
  }
}
#endif

#ifdef ADAM
// CONSTANT 3: beta1, 4: beta2, 5: eps, 6: decoupled weight decay (AdamW), 7: log(beta1), 8: log(beta2), 9: 1 - beta1,
// 10: 1 - beta2.
// Lists: param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq (AMSGRAD), and in slot 5 the step count (one float32).
TASK_KERNEL void adam(MULTI_TENSOR_ARGUMENTS) {
  STEP_BEGIN;
  __global T* average = LIST(T, 2);
  __global T* square = LIST(T, 3);
#if AMSGRAD
  __global T* largest = LIST(T, 4);
#endif
  const REAL step = *LIST(const float, 5);
  const REAL beta1 = CONSTANT(3), beta2 = CONSTANT(4), eps = CONSTANT(5), rest1 = CONSTANT(9), rest2 = CONSTANT(10);
  const int decoupled = CONSTANT(6) != 0;
  const REAL correction1 = -expm1(step * CONSTANT(7)), correction2 = sqrt(-expm1(step * CONSTANT(8)));
  const REAL step_size = lr / correction1, shrink = 1 - lr * weight_decay, inverse = 1 / correction2;
  FOR_ELEMENTS(i) {
    STEP_GRADIENT;
    if (decoupled)
      p *= shrink;
    else
      g += weight_decay * p;
    const REALS m = beta1 * READ(average) + rest1 * g;
    const REALS v = beta2 * READ(square) + rest2 * g * g;
    WRITE(average, m);
    WRITE(square, v);
#if AMSGRAD
    REALS w = READ(largest);
    w = ((w > v) | (w != w)) ? w : v;
    WRITE(largest, w);
    const REALS denominator = sqrt(w) * inverse + eps;
#else
    const REALS denominator = sqrt(v) * inverse + eps;
#endif
    p -= step_size * m / denominator;
    WRITE(param, p);
  }
}
#endif

#ifdef ADAGRAD
// CONSTANT 3: lr_decay, 4: eps. Lists: param, grad, state_sum, and in slot 5 the step count (one float32).
TASK_KERNEL void adagrad(MULTI_TENSOR_ARGUMENTS) {
  STEP_BEGIN;
  __global T* state = LIST(T, 2);
  const REAL step = *LIST(const float, 5), eps = CONSTANT(4);
  const REAL rate = lr / (1 + (step - 1) * CONSTANT(3));
  FOR_ELEMENTS(i) {
    STEP_GRADIENT;
    g += weight_decay * p;
    const REALS sum = READ(state) + g * g;
    WRITE(state, sum);
    p -= rate * g / (sqrt(sum) + eps);
    WRITE(param, p);
  }
}
#endif
