#include "torch/aten/fallback.h"

#include "torch/aten/common.h"
#include "base/environment.h"
#include "opencl/command_list.h"
#include "torch/runtime/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>

namespace ocl::aten {

namespace {

std::atomic<int> policy{-1};
std::mutex counts_mutex;
std::map<std::string, uint64_t>& counts() {
  static auto* map = new std::map<std::string, uint64_t>;
  return *map;
}

template <class F>
void for_each_tensor(const c10::IValue& value, F&& f) {
  if (value.isTensor())
    f(value.toTensor());
  else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) f(t);
  } else if (value.isOptionalTensorList()) {
    for (const c10::optional<at::Tensor>& t : value.toOptionalTensorVector())
      if (t) f(*t);
  }
}

// All `ocl` tensors on one device, others only as CPU scalars: the message is TensorIterator's.
c10::optional<at::Device> common_device(const torch::jit::Stack& stack, size_t first) {
  c10::optional<at::Device> device;
  auto visit_devices = [&](bool check) {
    for (size_t i = first; i < stack.size(); ++i)
      for_each_tensor(stack[i], [&](const at::Tensor& t) {
        if (!t.defined()) return;
        if (!check) {
          if (!device && t.device().type() == runtime::device_type) device = t.device();
          return;
        }
        TORCH_CHECK(t.device() == *device || (t.device().is_cpu() && t.dim() == 0),
                    "Expected all tensors to be on the same device, but found at least two devices, ", *device, " and ",
                    t.device(), "!");
      });
  };
  visit_devices(false);
  if (device) visit_devices(true);
  return device;
}

// Index and size arguments that PyTorch wants on the CPU anyway.
bool takes_cpu_tensors(const std::string& name) {
  static const std::set<std::string> names = {"aten::_index_put_impl_", "aten::index.Tensor", "aten::index.Tensor_out",
                                              "aten::tensor_split.tensor_indices_or_sections"};
  return names.count(name) > 0;
}

}  // namespace

void count_fallback(const std::string& name, const std::string& why) {
  bool first = false;
  {
    std::lock_guard lock(counts_mutex);
    first = ++counts()[name] == 1;
  }
  const FallbackPolicy now = fallback_policy();
  TORCH_CHECK_NOT_IMPLEMENTED(now != FallbackPolicy::error, "The operator '", name, "' ", why,
                              ", and TORCH_OCL_FALLBACK=error forbids running it on the CPU.");
  static auto* warned = new std::set<std::string>;
  static std::mutex warned_mutex;
  if (now == FallbackPolicy::warn && first) {
    std::lock_guard lock(warned_mutex);
    if (warned->insert(name).second) {
      TORCH_WARN("The operator '", name, "' ", why,
                 " and runs on the CPU. torch.ocl.fallbacks() lists such operators; ",
                 "TORCH_OCL_FALLBACK=silent hides this warning, =error forbids the fallback.");
    }
  }
}

// A generator of this device has no CPU kernel: the CPU kernel gets one seeded from it, so that results stay
// reproducible.
void replace_generators(torch::jit::Stack& stack, size_t first, c10::DeviceIndex index) {
  for (size_t i = first; i < stack.size(); ++i) {
    if (!stack[i].isGenerator()) continue;
    const at::Generator generator = stack[i].toGenerator();
    if (generator.device().type() != runtime::device_type) continue;
    const auto [seed, offset] = runtime::reserve_philox(generator, index, 1);
    stack[i] = at::detail::createCPUGenerator(seed ^ (offset * 0x9e3779b97f4a7c15ull));
  }
}

static void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& why) {
  const std::string name = c10::toString(op.operator_name());
  const size_t first = stack->size() - op.schema().arguments().size();
  c10::optional<at::Device> device;
  if (!takes_cpu_tensors(name)) device = common_device(*stack, first);
  if (CommandList* list = runtime::current_queue().capture()) list->refuse("the operator " + name + ", which " + why);
  count_fallback(name, why);
  replace_generators(*stack, first, device ? device->index() : runtime::current_device());
  const c10::OptionalDeviceGuard guard(device);
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  run_on_cpu(op, stack, "has no OpenCL kernel");
}

void fall_back_because(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& error) {
  run_on_cpu(op, stack, "has an OpenCL kernel that could not be built (" + error + ")");
}

namespace {

// A CPU storage on the memory of an `ocl` one, which it keeps alive.
c10::Storage cpu_storage(const c10::Storage& storage) {
  auto* keep = new c10::Storage(storage);
  c10::DataPtr data(
      storage.mutable_data(), keep, [](void* kept) { delete static_cast<c10::Storage*>(kept); }, at::kCPU);
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), c10::GetCPUAllocator(),
                      /*resizable=*/true);
}

// On shared memory the CPU works on the tensors in place; elsewhere they are copied. Tensors of one storage stay
// tensors of one storage, so that the CPU's own checks see overlapping arguments.
at::Tensor cpu_alias(const at::Tensor& tensor, std::map<c10::StorageImpl*, c10::Storage>& storages) {
  if (!tensor.defined() || tensor.device().is_cpu()) return tensor;
  Device& device = runtime::device(tensor.device().index());
  if (!device.capabilities().unified_memory || tensor.layout() != at::kStrided) return tensor.to(at::kCPU);
  runtime::check_memory(tensor);
  c10::Storage& storage = storages[tensor.storage().unsafeGetStorageImpl()];
  if (!storage) storage = cpu_storage(tensor.storage());
  at::Tensor alias = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  alias._set_conj(tensor.is_conj());
  alias._set_neg(tensor.is_neg());
  return alias;
}

std::vector<at::Tensor> to_cpu(at::TensorList tensors) {
  std::vector<at::Tensor> result;
  std::set<Queue*> finished;
  std::map<c10::StorageImpl*, c10::Storage> storages;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.device().type() == runtime::device_type) {
      Queue& queue = queue_for(tensor);
      if (finished.insert(&queue).second) runtime::synchronize(queue);
    }
    result.push_back(cpu_alias(tensor, storages));
  }
  return result;
}

}  // namespace

FallbackPolicy fallback_policy() {
  int now = policy.load();
  if (now < 0) {
    const std::string text = environment::word("TORCH_OCL_FALLBACK", "warn");
    now = static_cast<int>(text == "error"    ? FallbackPolicy::error
                           : text == "silent" ? FallbackPolicy::silent
                                              : FallbackPolicy::warn);
    policy.store(now);
  }
  return static_cast<FallbackPolicy>(now);
}

void set_fallback_policy(FallbackPolicy value) { policy.store(static_cast<int>(value)); }

std::map<std::string, uint64_t> fallback_counts() {
  std::lock_guard lock(counts_mutex);
  return counts();
}

void reset_fallback_counts() {
  std::lock_guard lock(counts_mutex);
  counts().clear();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_to_cpu", to_cpu); }

}  // namespace ocl::aten
