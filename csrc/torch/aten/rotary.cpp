// ocl::rotary: rotary position embedding of queries and keys, for torch_ocl.optimize.
#include "ops/attention/rotary.h"
#include "torch/aten/common.h"

#include <ATen/ops/empty.h>

namespace ocl::aten {
namespace {

using at::Tensor;

Tensor dense_rows(const Tensor& t) { return t.stride(-1) == 1 || t.size(-1) == 1 ? t : t.contiguous(); }

// q [B, H, L, D], k [B, G, L, D], cos and sin [B or 1, L, D]: q and k turned, of the same sizes.
std::tuple<Tensor, Tensor> rotary(const Tensor& query, const Tensor& key, const Tensor& cosine, const Tensor& sine) {
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && cosine.dim() == 3 && sine.dim() == 3,
              "rotary: expected q and k of four dimensions, and cos and sin of three");
  const c10::DeviceGuard guard(query.device());
  const Tensor q = dense_rows(query), k = dense_rows(key);
  const at::DimVector angles{q.size(0), q.size(2), q.size(3)};
  const Tensor c = dense_rows(cosine).expand(angles), s = dense_rows(sine).expand(angles);
  Tensor q_out = at::empty({q.size(0), q.size(2), q.size(1), q.size(3)}, q.options());
  Tensor k_out = at::empty({k.size(0), k.size(2), k.size(1), k.size(3)}, k.options());
  ops::rotary(queue_for(q), view(q), view(k), view(c), view(s), view(q_out), view(k_out));
  return {q_out.transpose(1, 2), k_out.transpose(1, 2)};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(ocl, m) { m.def("rotary(Tensor q, Tensor k, Tensor cos, Tensor sin) -> (Tensor, Tensor)"); }
TORCH_LIBRARY_IMPL(ocl, PrivateUse1, m) { m.impl("rotary", rotary); }

}  // namespace ocl::aten
