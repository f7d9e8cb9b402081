// Optimizer steps over all tensors of a model in a few launches. Formulas, argument meaning and order of operations are
// those of torch.optim with fused=True. All tensors of a call have one floating dtype and a dense layout that agrees
// between the lists.
#pragma once

#include "ops/foreach/multi_tensor.h"

namespace ocl::ops {

// Single values on the device; null: absent.
struct StepExtras {
  const float* learning_rate = nullptr;  // replaces the number in the options
  const float* grad_scale = nullptr;     // gradients are divided by it, and written back
  const float* found_inf = nullptr;      // not 0: the step does nothing
};

struct SgdOptions {
  double lr = 0, weight_decay = 0, momentum = 0, dampening = 0;
  bool nesterov = false, maximize = false;
  bool first_step = false;  // the momentum buffer is written without being read
};
// Rows: data = {param, grad, momentum buffer (read only when momentum != 0)}.
void sgd_step(Queue& queue, DType dtype, std::span<const MultiTensorRow> rows, const SgdOptions& options,
              const StepExtras& extras = {});

struct AdamOptions {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, weight_decay = 0, eps = 1e-8;
  bool amsgrad = false, maximize = false;
  bool decoupled = false;  // AdamW
};
// Rows: data = {param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq (amsgrad), step (one float32, counted from 1)}.
void adam_step(Queue& queue, DType dtype, std::span<const MultiTensorRow> rows, const AdamOptions& options,
               const StepExtras& extras = {});

struct AdagradOptions {
  double lr = 0, lr_decay = 0, weight_decay = 0, eps = 1e-10;
  bool maximize = false;
};
// Rows: data = {param, grad, state_sum, null, null, step}.
void adagrad_step(Queue& queue, DType dtype, std::span<const MultiTensorRow> rows, const AdagradOptions& options,
                  const StepExtras& extras = {});

}  // namespace ocl::ops
