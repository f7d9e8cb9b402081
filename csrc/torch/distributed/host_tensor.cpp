#include "torch/distributed/host_tensor.h"

#include "torch/runtime/device.h"
#include "torch/runtime/memory_check.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

namespace ocl::distributed {

namespace {

// A CPU tensor on the memory of one of the device, which it keeps alive. Not aten::_to_cpu: that waits for all work of
// a stream, also for what was issued after the collective.
at::Tensor alias_of(const at::Tensor& tensor) {
  runtime::check_memory(tensor);
  if (tensor.device().is_cpu()) return tensor.detach();
  return at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), [keep = tensor.storage()](void*) {},
      tensor.options().device(at::kCPU), at::kCPU);
}

}  // namespace

bool shares_memory(const at::Tensor& tensor) {
  return tensor.device().is_cpu() || runtime::device(tensor.device().index()).capabilities().unified_memory;
}

void check_tensor(const at::Tensor& tensor, Use use) {
  TORCH_CHECK(tensor.defined(), "Invalid argument: a tensor is undefined");
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "Invalid argument: unsupported layout: ", tensor.layout());
  if (use == Use::read) return;
  at::assert_no_internal_overlap(tensor);
  TORCH_CHECK_NOT_IMPLEMENTED(!tensor.is_conj() && !tensor.is_neg(),
                              "a collective cannot write to a tensor that is a lazy conjugate or negative");
}

HostTensor::HostTensor(const at::Tensor& tensor, Use use, std::optional<at::ScalarType> type)
    : tensor_(tensor), use_(use) {
  const at::ScalarType host_type = type.value_or(tensor.scalar_type());
  // Bits that say "conjugate" are no part of the memory.
  const bool plain = !tensor.is_conj() && !tensor.is_neg();
  if (plain && shares_memory(tensor)) {
    alias_ = alias_of(tensor);
    if (host_type == tensor.scalar_type() && alias_.is_contiguous()) {
      host_ = alias_;
      return;
    }
  }
  const at::Tensor& source = alias_.defined() ? alias_ : tensor_;
  host_ = at::empty(tensor.sizes(),
                    at::TensorOptions(host_type).device(at::kCPU).pinned_memory(!alias_.defined() && plain));
  if (use != Use::write) host_.copy_(source.resolve_conj().resolve_neg());
}

at::Tensor HostTensor::bytes() const { return bytes_of(host_); }

at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.as_strided({tensor.numel()}, {1}).view(at::kByte); }

void HostTensor::finish() {
  if (use_ == Use::read || host_.is_same(alias_)) return;
  if (alias_.defined())
    alias_.copy_(host_);
  else
    tensor_.copy_(host_, /*non_blocking=*/true);
}

}  // namespace ocl::distributed
