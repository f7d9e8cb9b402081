// Tensor.data = (Tensor::set_data in C++) between this device and another one. Module.to of both Python and C++ moves
// parameters by it, so that a parameter stays the object that optimizers, hooks and tied layers know. PyTorch allows it
// between the devices that its TensorImpl::has_compatible_shallow_copy_type counts as dense; PrivateUse1 is not on that
// list.
#include <ATen/core/Tensor.h>
#include <ATen/core/VariableHooksInterface.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <mutex>

namespace ocl::runtime {

namespace {

using at::Tensor;
using at::TensorBase;

bool plain(c10::DispatchKeySet keys) {
  const c10::DispatchKeySet special{c10::DispatchKey::Python,    c10::DispatchKey::Functionalize,
                                    c10::DispatchKey::Sparse,    c10::DispatchKey::SparseCsr,
                                    c10::DispatchKey::Quantized, c10::DispatchKey::NestedTensor};
  return !keys.has_any(special);
}

// Dense tensors, one of them of this device and the other of another one (or of none: meta).
bool moves(const TensorBase& self, const TensorBase& source) {
  return self.is_privateuseone() != source.is_privateuseone() && plain(self.key_set()) && plain(source.key_set());
}

bool compatible(const Tensor& self, const Tensor& source) {
  return self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(source.key_set()) || moves(self, source);
}

// PyTorch's own hooks in everything but set_data.
class Hooks final : public at::impl::VariableHooksInterface {
 public:
  explicit Hooks(const VariableHooksInterface* original) : original_(original) {}

  void set_data(const TensorBase& self, const TensorBase& source) const override {
    if (!moves(self, source)) return original_->set_data(self, source);
    TORCH_CHECK(!self.requires_grad() || torch::autograd::isDifferentiableType(source.scalar_type()),
                "data set to a tensor that requires gradients must be floating point or complex dtype");
    // The node that accumulates gradients remembers the old device; the next backward makes a new one.
    if (auto* meta = torch::autograd::impl::get_autograd_meta(self)) {
      const std::lock_guard lock(meta->mutex_);
      meta->grad_accumulator_.reset();
    }
    self.unsafeGetTensorImpl()->shallow_copy_from(source.getIntrusivePtr());
  }

  TensorBase tensor_data(const TensorBase& t) const override { return original_->tensor_data(t); }
  TensorBase variable_data(const TensorBase& t) const override { return original_->variable_data(t); }
  auto grad_fn(const TensorBase& t) const
      -> decltype(std::declval<const VariableHooksInterface&>().grad_fn(t)) override {
    return original_->grad_fn(t);
  }
  unsigned _register_hook(const TensorBase& t, std::function<TensorBase(const TensorBase&)> hook) const override {
    return original_->_register_hook(t, std::move(hook));
  }
  void remove_hook(const TensorBase& t, unsigned position) const override { original_->remove_hook(t, position); }
  bool is_view(const TensorBase& t) const override { return original_->is_view(t); }
  const TensorBase& base(const TensorBase& t) const override { return original_->base(t); }
  const std::string& name(const TensorBase& t) const override { return original_->name(t); }
  bool is_leaf(const TensorBase& t) const override { return original_->is_leaf(t); }
  int64_t output_nr(const TensorBase& t) const override { return original_->output_nr(t); }
  TensorBase data(const TensorBase& t) const override { return original_->data(t); }
  int64_t _version(const TensorBase& t) const override { return original_->_version(t); }
  void retain_grad(const TensorBase& t) const override { original_->retain_grad(t); }
  bool retains_grad(const TensorBase& t) const override { return original_->retains_grad(t); }
  void _backward(const Tensor& t, at::TensorList inputs, const std::optional<Tensor>& gradient,
                 std::optional<bool> keep_graph, bool create_graph) const override {
    original_->_backward(t, inputs, gradient, keep_graph, create_graph);
  }
  void requires_grad_(const TensorBase& t, bool value) const override { original_->requires_grad_(t, value); }
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                               torch::jit::Stack* stack) const override {
    original_->basic_autograd_not_implemented_fallback(op, keys, stack);
  }
  std::optional<c10::ScalarType> grad_dtype(const TensorBase& t) const override { return original_->grad_dtype(t); }
  void set_grad_dtype(const TensorBase& t, const std::optional<c10::ScalarType>& dtype) const override {
    original_->set_grad_dtype(t, dtype);
  }

 private:
  const VariableHooksInterface* original_;
};

const bool installed = [] {
  at::impl::SetVariableHooks(
      new Hooks(at::impl::GetVariableHooks()));  // never deleted: tensors may outlive static objects
  return true;
}();

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_has_compatible_shallow_copy_type", compatible); }

}  // namespace ocl::runtime
