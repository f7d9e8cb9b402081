// One collective of a group: what PyTorch calls a Work.
#pragma once

#include "torch/distributed/host_tensor.h"
#include "torch/distributed/worker.h"

#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <memory>
#include <shared_mutex>
#include <vector>

namespace ocl::distributed {

// The host's side of a collective's tensors, from its start to its end.
struct HostTensors {
  std::vector<HostTensor> inputs, outputs;
  std::vector<at::Tensor> buffers;

  at::Tensor input(const at::Tensor& tensor, std::optional<at::ScalarType> type = std::nullopt);
  at::Tensor output(const at::Tensor& tensor, Use use = Use::write, std::optional<at::ScalarType> type = std::nullopt);
  std::vector<at::Tensor> input_bytes(const std::vector<at::Tensor>& tensors);
  std::vector<at::Tensor> output_bytes(const std::vector<at::Tensor>& tensors, Use use = Use::write);
};

// Closed at the end of the process: from then on nobody touches a device.
struct Gate {
  std::shared_mutex mutex;
  bool closed = false;
};

// What is special to a kind of collective.
struct Steps {
  // Calls Gloo. On the worker's thread, when all device work issued before the collective has ended.
  std::function<c10::intrusive_ptr<c10d::Work>(HostTensors&)> start;
  // After Gloo has ended and before the outputs go back to their device. On a thread of Gloo's. May be empty.
  std::function<void(HostTensors&)> finish;
};

// The future's value is the list of the caller's own tensors, which is what DDP takes as its bucket, and waiting for it
// orders the waiting thread's current streams behind the uploads. It keeps all tensors until it has ended.
//
// Messages between two ranks (send, recv) have no future, as with Gloo, whose own works end in wait() only.
class Collective final : public c10d::Work {
 public:
  using Ptr = c10::intrusive_ptr<Collective>;
  using Future = c10::ivalue::Future;

  // Records what the current streams have been given. Errors: tensors that no collective takes (check_tensor).
  Collective(int rank, c10d::OpType type, const char* title, std::vector<at::Tensor> inputs,
             std::vector<at::Tensor> outputs, Steps steps, std::shared_ptr<Gate> gate);
  static void issue(const Ptr& self, Worker& worker);

  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  void synchronize() override { wait(kNoTimeout); }
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<Future> getFuture() override;
  bool has_future() const { return !between_two_; }

 private:
  struct Reference;
  struct Start;
  bool ready();
  void run() noexcept;
  void complete() noexcept;
  void fail(std::exception_ptr error) noexcept;
  void finish_message(std::chrono::milliseconds timeout);

  const bool between_two_;
  std::vector<at::Tensor> inputs_, outputs_;
  std::vector<c10::Stream> streams_;  // of the group, one per device
  std::vector<c10::Event> issued_;
  Steps steps_;
  std::shared_ptr<Gate> gate_;
  HostTensors hosts_;
  c10::intrusive_ptr<Future> future_;
  std::mutex message_mutex_;
  c10::intrusive_ptr<c10d::Work> message_;  // Gloo's
  bool started_ = false;                    // guarded by mutex_, as completed_
};

// Several as one.
class Coalesced final : public c10d::Work {
 public:
  Coalesced(int rank, std::vector<Collective::Ptr> parts);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override { wait(kNoTimeout); }
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::vector<Collective::Ptr> parts_;
};

}  // namespace ocl::distributed
