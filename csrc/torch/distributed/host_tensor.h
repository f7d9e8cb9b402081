// Host memory that stands for a tensor of the device while Gloo works on it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace ocl::distributed {

// What a collective does with a tensor.
enum class Use { read, write, update };

// Gloo reads and writes dense memory of the host and does not check strides. `host` is such memory: the tensor's own
// where the device shares it with the host and it is contiguous, otherwise a copy.
class HostTensor {
 public:
  // Waits for downloads, but not for work issued before: the caller has. `type`: of `host`, when not the tensor's.
  HostTensor(const at::Tensor& tensor, Use use, std::optional<at::ScalarType> type = std::nullopt);

  at::Tensor host() const { return host_; }
  // The same as a flat tensor of bytes: what is only moved may have any dtype.
  at::Tensor bytes() const;
  // Brings what was written back to the tensor. Uploads go to the current stream; `host` lives until they have ended.
  void finish();
  const at::Tensor& tensor() const { return tensor_; }

 private:
  at::Tensor tensor_, alias_, host_;
  Use use_;
};

// A contiguous tensor as a flat one of bytes. view() would keep the strides of a tensor of one element, which is
// contiguous whatever they are.
at::Tensor bytes_of(const at::Tensor& tensor);
// Whether host memory of the tensor's storage is read and written without a copy.
bool shares_memory(const at::Tensor& tensor);
// Raises for tensors that no collective takes: sparse ones, and outputs whose elements share memory.
void check_tensor(const at::Tensor& tensor, Use use);

}  // namespace ocl::distributed
