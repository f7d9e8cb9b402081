#include "ops/core/type_error.h"
#include "ops/optimizer/optimizer.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace ocl::ops {

namespace {

// The defines of a step, constants 0 to 2 that all steps share, and the launch.
void step(Queue& queue, KernelSite& site, const char* name, DType type, int option, const char* option_name,
          MultiTensor work, double lr, double weight_decay, bool maximize, std::span<const MultiTensorRow> rows,
          const StepExtras& extras) {
  if (!is_floating(type)) not_implemented("fused optimizer", type);
  require_dtype(queue.device(), type, "fused optimizer");
  Kernel& kernel = site.get(queue.device(), Variant().add(type).add(option, 1), [&] {
    Defines defines;
    dtype(defines, "X_DTYPE", type);
    return dtype(defines, "C_DTYPE", compute_type(type)).add(name, 1).add(option_name, option);
  });
  work.compute = compute_type(type);
  work.constants[0] = lr;
  work.constants[1] = weight_decay;
  work.constants[2] = maximize ? -1 : 1;
  work.extras = {extras.learning_rate, extras.grad_scale, extras.found_inf};
  work.rows = rows;
  launch_multi_tensor(queue, work, kernel);
}

}  // namespace

void sgd_step(Queue& queue, DType dtype, std::span<const MultiTensorRow> rows, const SgdOptions& o,
              const StepExtras& extras) {
  static KernelSite site("optimizer/optimizer.cl", "sgd");
  MultiTensor work;
  work.constants[3] = o.momentum;
  work.constants[4] = 1 - o.dampening;
  work.constants[5] = o.nesterov;
  work.constants[6] = o.first_step;
  step(queue, site, "SGD", dtype, o.momentum != 0, "MOMENTUM", work, o.lr, o.weight_decay, o.maximize, rows, extras);
}

void adam_step(Queue& queue, DType dtype, std::span<const MultiTensorRow> rows, const AdamOptions& o,
               const StepExtras& extras) {
  static KernelSite site("optimizer/optimizer.cl", "adam");
  MultiTensor work;
  work.constants[3] = o.beta1;
  work.constants[4] = o.beta2;
  work.constants[5] = o.eps;
  work.constants[6] = o.decoupled;
  // 1 - beta^step as -expm1(step * log(beta)): exact enough in float32 for any step count
  work.constants[7] = std::log(o.beta1);
  work.constants[8] = std::log(o.beta2);
  work.constants[9] = 1 - o.beta1;
  work.constants[10] = 1 - o.beta2;
  step(queue, site, "ADAM", dtype, o.amsgrad, "AMSGRAD", work, o.lr, o.weight_decay, o.maximize, rows, extras);
}

void adagrad_step(Queue& queue, DType dtype, std::span<const MultiTensorRow> rows, const AdagradOptions& o,
                  const StepExtras& extras) {
  static KernelSite site("optimizer/optimizer.cl", "adagrad");
  MultiTensor work;
  work.constants[3] = o.lr_decay;
  work.constants[4] = o.eps;
  step(queue, site, "ADAGRAD", dtype, 0, "UNUSED", work, o.lr, o.weight_decay, o.maximize, rows, extras);
}

}  // namespace ocl::ops
