// torch.distributed for tensors of the device: every collective of c10d, carried by one Gloo engine per group.
//
// Gloo works on host memory and knows no strides. A collective is therefore issued to the group's worker, which waits
// for the device work that it depends on, gives Gloo host memory (the tensor's own where the device shares it), and
// brings results back; docs/design/distributed.md has the whole.
#pragma once

#include "torch/distributed/collective.h"
#include "torch/distributed/reduction.h"
#include "torch/distributed/worker.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace ocl::distributed {

class ProcessGroup final : public c10d::Backend {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  // `gloo`: a ProcessGroupGloo of the same rank and size. Its header is not part of PyTorch's installation.
  ProcessGroup(c10::intrusive_ptr<c10d::Backend> gloo, int rank, int size);
  ~ProcessGroup() override;

  const std::string getBackendName() const override { return "ocl_gloo"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return gloo_->getBackendOptions(); }

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Work allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Work _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  Work allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Work allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::AllgatherOptions& options) override;
  Work gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Work scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  Work reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  Work reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::ReduceScatterOptions& options) override;
  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                     std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  Work alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  Work send(Tensors& tensors, int to, int tag) override;
  Work recv(Tensors& tensors, int from, int tag) override;
  Work recvAnysource(Tensors& tensors, int tag) override;
  Work barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  void startCoalescing() override;
  Work endCoalescing() override;

  void setSequenceNumberForGroup() override { gloo_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return gloo_->getSequenceNumberForGroup(); }
  void setTimeout(std::chrono::milliseconds timeout) override { gloo_->setTimeout(timeout); }
  void abort() override;
  void shutdown() override;

  // At the end of the process, for all groups that nobody has destroyed: waits for what their workers have begun, after
  // which no thread of theirs touches a device.
  static void close_all();

 private:
  using Gloo = c10::intrusive_ptr<c10d::Backend>;

  Collective::Ptr issue(c10d::OpType type, const char* title, Tensors inputs, Tensors outputs, Steps steps);
  Collective::Ptr reduce_all(const at::Tensor& tensor, const c10d::AllreduceOptions& options);
  Collective::Ptr gather_all(const Tensors& outputs, const at::Tensor& input, const c10d::AllgatherOptions& options);
  Collective::Ptr gather_flat(const at::Tensor& output, const at::Tensor& input, const c10d::AllgatherOptions& options);
  // Parts to one rank each, of any sizes.
  Collective::Ptr exchange(const Tensors& outputs, const Tensors& inputs, const c10d::AllToAllOptions& options);
  Collective::Ptr reduce_parts(const at::Tensor& output, const Tensors& parts,
                               const c10d::ReduceScatterOptions& options);
  Work together(std::vector<Collective::Ptr> parts);

  Gloo gloo_;
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  bool coalescing_ = false;
  std::vector<Collective::Ptr> coalesced_;
  Worker worker_;
};

}  // namespace ocl::distributed
