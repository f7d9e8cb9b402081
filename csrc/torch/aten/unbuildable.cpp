// Operators whose program the driver does not build run on the CPU, on devices whose driver is not known to build
// everything (Device::guarded). Programs are then built where they are asked for, so that the operator itself fails.
#include "opencl/error.h"
#include "torch/aten/common.h"
#include "torch/aten/fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <vector>

namespace ocl::aten {

namespace {

// Commands issued to the queue that an operator with these arguments uses.
uint64_t commands_issued(const torch::jit::Stack& stack, size_t first) {
  for (size_t i = first; i < stack.size(); ++i) {
    if (!stack[i].isTensor()) continue;
    const at::Tensor& tensor = stack[i].toTensor();
    if (tensor.defined() && tensor.device().type() == runtime::device_type) return queue_for(tensor).commands();
  }
  return runtime::current_queue(runtime::current_device()).commands();
}

// Whether doing it twice is not doing it once: it changes tensors that it also reads. The schemas do not tell of
// running statistics.
bool changes_inputs(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument& argument) {
    const bool written = argument.alias_info() && argument.alias_info()->isWrite() && !argument.is_out();
    return written || argument.name().starts_with("running_");
  });
}

// An operator's kernel and, where its program is not built, the CPU's.
class OrOnCpu : public c10::OperatorKernel {
 public:
  explicit OrOnCpu(c10::SafeKernelFunction kernel) : kernel_(std::move(kernel)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const size_t first = stack->size() - op.schema().arguments().size();
    const torch::jit::Stack arguments(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
    const uint64_t before = commands_issued(arguments, 0);
    std::string error;
    try {
      return kernel_.callBoxed(op, keys, stack);
    } catch (const BuildError& unbuilt) {
      if (changes_inputs(op.schema()) && commands_issued(arguments, 0) != before) throw;
      if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) throw;
      if (fallback_policy() == FallbackPolicy::error) throw;
      error = unbuilt.what();
    }
    stack->resize(first);
    stack->insert(stack->end(), arguments.begin(), arguments.end());
    fall_back_because(op, stack, error);
  }

 private:
  c10::SafeKernelFunction kernel_;
};

struct NoWarnings : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// Registers every kernel of this device once more. In a process without such a device nothing is done, or costs.
void catch_build_errors() {
  static const auto* registrations = [] {
    NoWarnings none;  // that kernels are replaced
    const c10::WarningUtils::WarningHandlerGuard guard(&none);
    auto* kept = new std::vector<c10::RegistrationHandleRAII>;
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    constexpr auto key = c10::DispatchKey::PrivateUse1;
    for (const c10::OperatorName& name : dispatcher.getRegistrationsForDispatchKey(key)) {
      const auto op = dispatcher.findSchema(name);
      if (!op || !op->hasKernelForDispatchKey(key)) continue;
      auto kernel = std::make_unique<OrOnCpu>(op->getComputedKernelForDispatchKey(key));
      kept->push_back(dispatcher.registerImpl(name, key, c10::KernelFunction::makeFromBoxedFunctor(std::move(kernel)),
                                              std::nullopt, nullptr, "torch_ocl: or on the CPU"));
    }
    return kept;
  }();
  (void)registrations;
}

const bool registered = (Device::on_guard(catch_build_errors), true);

}  // namespace

}  // namespace ocl::aten
