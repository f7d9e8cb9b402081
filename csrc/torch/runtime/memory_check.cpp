#include "torch/runtime/memory_check.h"

#include <ATen/native/Resize.h>
#include <c10/util/safe_numerics.h>

#include <optional>

namespace ocl::runtime::detail {

namespace {

// The largest offset in elements that the tensor reaches, or nothing for one that no storage can hold.
std::optional<uint64_t> last_element(const at::TensorBase& tensor) {
  auto last = static_cast<uint64_t>(tensor.storage_offset());
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    uint64_t reach = 0;
    if (tensor.stride(d) < 0 ||
        c10::mul_overflows(static_cast<uint64_t>(tensor.size(d) - 1), static_cast<uint64_t>(tensor.stride(d)),
                           &reach) ||
        c10::add_overflows(last, reach, &last))
      return std::nullopt;
  }
  return last > INT64_MAX ? std::nullopt : std::optional(last);
}

}  // namespace

void check_memory_slowly(const at::TensorBase& tensor) {
  const c10::TensorImpl& t = *tensor.unsafeGetTensorImpl();
  TORCH_CHECK(t.has_storage(), "Cannot access the memory of a tensor that has no storage (layout ", tensor.layout(),
              ")");
  if (tensor.numel() == 0) return;
  const c10::Storage& storage = t.unsafe_storage();
  const std::optional<uint64_t> last = last_element(tensor);
  const bool memory = last && storage.data() != nullptr;
  if (memory && *last < storage.nbytes() / t.itemsize()) return;
  at::native::checkInBoundsForStorage(tensor.sizes(), tensor.strides(), tensor.storage_offset(), tensor.dtype(),
                                      storage);  // knows types of less than a byte
  TORCH_CHECK(memory, "A tensor of sizes ", tensor.sizes(), ", strides ", tensor.strides(), " and storage offset ",
              tensor.storage_offset(), " has no memory for its elements (storage of ", storage.nbytes(), " bytes)");
}

}  // namespace ocl::runtime::detail
