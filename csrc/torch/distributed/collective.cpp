#include "torch/distributed/collective.h"

#include "torch/runtime/device.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <map>
#include <utility>

namespace ocl::distributed {

namespace {

// Uploads have a stream of their own: the default one may have been given work that should run beside them.
c10::Stream transfer_stream(c10::DeviceIndex index) {
  static std::mutex mutex;
  static auto* streams = new std::map<c10::DeviceIndex, c10::Stream>;
  std::lock_guard lock(mutex);
  auto found = streams->find(index);
  if (found == streams->end())
    found = streams->emplace(index, runtime::stream_of(runtime::device(index).pooled_queue())).first;
  return found->second;
}

std::vector<c10::Device> devices_of(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  std::vector<c10::Device> result;
  for (const auto* tensors : {&a, &b})
    for (const at::Tensor& tensor : *tensors)
      if (!tensor.device().is_cpu() && std::find(result.begin(), result.end(), tensor.device()) == result.end())
        result.push_back(tensor.device());
  return result;
}

bool is_message(c10d::OpType type) {
  return type == c10d::OpType::SEND || type == c10d::OpType::RECV || type == c10d::OpType::RECVANYSOURCE;
}

}  // namespace

at::Tensor HostTensors::input(const at::Tensor& tensor, std::optional<at::ScalarType> type) {
  return inputs.emplace_back(tensor, Use::read, type).host();
}

at::Tensor HostTensors::output(const at::Tensor& tensor, Use use, std::optional<at::ScalarType> type) {
  return outputs.emplace_back(tensor, use, type).host();
}

std::vector<at::Tensor> HostTensors::input_bytes(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  result.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) result.push_back(inputs.emplace_back(tensor, Use::read).bytes());
  return result;
}

std::vector<at::Tensor> HostTensors::output_bytes(const std::vector<at::Tensor>& tensors, Use use) {
  std::vector<at::Tensor> result;
  result.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) result.push_back(outputs.emplace_back(tensor, use).bytes());
  return result;
}

// A reference that a thread of Gloo's lets go of. Once the process ends it keeps it: tensors that Python knows can no
// longer be released then.
struct Collective::Reference {
  explicit Reference(Ptr collective) : collective(std::move(collective)) {}
  ~Reference() {
    const std::shared_ptr<Gate> gate = collective->gate_;
    const std::shared_lock lock(gate->mutex);
    if (gate->closed)
      collective.release();
    else
      collective.reset();
  }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  Ptr collective;
};

struct Collective::Start final : Task {
  explicit Start(Ptr collective) : collective(std::move(collective)) {}
  bool ready() override { return collective->ready(); }
  void run() noexcept override { collective->run(); }
  void cancel() noexcept override {
    collective->fail(
        std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, "The process group has been shut down")));
  }
  Ptr collective;
};

Collective::Collective(int rank, c10d::OpType type, const char* title, std::vector<at::Tensor> inputs,
                       std::vector<at::Tensor> outputs, Steps steps, std::shared_ptr<Gate> gate)
    : Work(rank, type, title, inputs.empty() ? outputs : inputs),
      between_two_(is_message(type)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      steps_(std::move(steps)),
      gate_(std::move(gate)) {
  for (const at::Tensor& tensor : inputs_) check_tensor(tensor, Use::read);
  for (const at::Tensor& tensor : outputs_) check_tensor(tensor, Use::write);
  const std::vector<c10::Device> devices = devices_of(inputs_, outputs_);
  for (const c10::Device& device : devices) {
    issued_.emplace_back(device.type()).record(runtime::current_stream(device.index()));
    streams_.push_back(transfer_stream(device.index()));
  }
  future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), devices);
}

void Collective::issue(const Ptr& self, Worker& worker) { worker.issue(std::make_shared<Start>(self)); }

bool Collective::ready() {
  for (const auto* tensors : {&inputs_, &outputs_})
    for (const at::Tensor& tensor : *tensors)
      if (!shares_memory(tensor)) return false;
  for (const c10::Event& event : issued_)
    if (!event.query()) return false;
  return true;
}

void Collective::run() noexcept {
  try {
    c10::intrusive_ptr<c10d::Work> work;
    {
      const std::shared_lock lock(gate_->mutex);
      TORCH_CHECK(!gate_->closed, "The process ends");
      for (const c10::Event& event : issued_) event.synchronize();
      const c10::MultiStreamGuard guard(streams_);
      work = steps_.start(hosts_);
      // It holds Gloo's group, whose destructor joins the threads that the callback runs on: none of them may be the
      // last to let go.
      steps_.start = nullptr;
    }
    if (between_two_) {
      const std::lock_guard lock(mutex_);
      message_ = std::move(work);
      started_ = true;
      cv_.notify_all();
      return;
    }
    work->getFuture()->addCallback([self = std::make_shared<Reference>(Ptr::reclaim_copy(this))](Future& done) {
      if (done.hasError())
        self->collective->fail(done.exception_ptr());
      else
        self->collective->complete();
    });
  } catch (...) {
    fail(std::current_exception());
  }
}

void Collective::complete() noexcept {
  try {
    const std::shared_lock lock(gate_->mutex);
    TORCH_CHECK(!gate_->closed, "The process ends");
    const c10::MultiStreamGuard guard(streams_);
    if (steps_.finish) steps_.finish(hosts_);
    for (HostTensor& output : hosts_.outputs) output.finish();
    if (recordFunctionEndCallback_) std::exchange(recordFunctionEndCallback_, nullptr)();
    future_->markCompleted(c10::IValue(outputs_));
  } catch (...) {
    fail(std::current_exception());
    return;
  }
  hosts_ = {};
  const std::lock_guard lock(mutex_);
  completed_ = true;
  cv_.notify_all();
}

void Collective::fail(std::exception_ptr error) noexcept {
  if (recordFunctionEndCallback_) std::exchange(recordFunctionEndCallback_, nullptr)();
  future_->setErrorIfNeeded(std::move(error));
  const std::lock_guard lock(mutex_);
  completed_ = true;
  cv_.notify_all();
}

std::exception_ptr Collective::exception() const {
  return future_->completed() && future_->hasError() ? future_->exception_ptr() : nullptr;
}

int Collective::sourceRank() const { return message_ ? message_->sourceRank() : Work::sourceRank(); }

void Collective::finish_message(std::chrono::milliseconds timeout) {
  const std::lock_guard once(message_mutex_);
  {
    std::unique_lock lock(mutex_);
    const auto began = [this] { return started_ || completed_; };
    if (timeout == kNoTimeout)
      cv_.wait(lock, began);
    else
      TORCH_CHECK(cv_.wait_for(lock, timeout, began), "Operation timed out!");
    if (completed_) return;
  }
  try {
    message_->wait(timeout);
  } catch (...) {
    fail(std::current_exception());
    return;
  }
  complete();
}

bool Collective::wait(std::chrono::milliseconds timeout) {
  if (between_two_) finish_message(timeout);
  {
    std::unique_lock lock(mutex_);
    const auto ended = [this] { return completed_; };
    if (timeout == kNoTimeout)
      cv_.wait(lock, ended);
    else
      TORCH_CHECK(cv_.wait_for(lock, timeout, ended), "Operation timed out!");
  }
  future_->waitAndThrow();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> Collective::getFuture() {
  TORCH_CHECK(!between_two_, "Work::getFuture not implemented for messages between two ranks.");
  return future_;
}

Coalesced::Coalesced(int rank, std::vector<Collective::Ptr> parts)
    : Work(rank, c10d::OpType::COALESCED), parts_(std::move(parts)) {}

bool Coalesced::isCompleted() {
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->isCompleted(); });
}

bool Coalesced::isSuccess() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->isSuccess(); });
}

std::exception_ptr Coalesced::exception() const {
  for (const Collective::Ptr& part : parts_)
    if (std::exception_ptr error = part->exception()) return error;
  return nullptr;
}

std::vector<at::Tensor> Coalesced::result() {
  std::vector<at::Tensor> all;
  for (const Collective::Ptr& part : parts_)
    for (const at::Tensor& tensor : part->result()) all.push_back(tensor);
  return all;
}

bool Coalesced::wait(std::chrono::milliseconds timeout) {
  // All of them before the first error is raised: none may write to a tensor that the caller has already given up.
  std::exception_ptr first;
  for (const Collective::Ptr& part : parts_) try {
      part->wait(timeout);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  if (first) std::rethrow_exception(first);
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> Coalesced::getFuture() {
  c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
      c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
  for (const Collective::Ptr& part : parts_) futures.push_back(part->getFuture());
  return c10::collectAll(futures)->then(
      [values = result()](c10::ivalue::Future& all) {
        all.waitAndThrow();
        return c10::IValue(values);
      },
      c10::ListType::create(c10::TensorType::get()));
}

}  // namespace ocl::distributed
