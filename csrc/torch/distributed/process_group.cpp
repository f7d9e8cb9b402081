#include "torch/distributed/process_group.h"

#include "torch/distributed/groups.h"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

namespace ocl::distributed {

namespace {

// Groups that exist. Leaked: groups may outlive static destruction.
struct Groups {
  std::mutex mutex;
  std::set<ProcessGroup*> all;
};

Groups& groups() {
  static auto* instance = new Groups;
  return *instance;
}

std::atomic<WithoutGil> without_gil_call{nullptr};

void without_gil(const std::function<void()>& function) {
  if (const WithoutGil call = without_gil_call)
    call(function);
  else
    function();
}

}  // namespace

ProcessGroup::ProcessGroup(Gloo gloo, int rank, int size) : Backend(rank, size), gloo_(std::move(gloo)) {
  const std::lock_guard lock(groups().mutex);
  groups().all.insert(this);
}

ProcessGroup::~ProcessGroup() {
  {
    const std::lock_guard lock(groups().mutex);
    groups().all.erase(this);
  }
  // A thread of the worker's or of Gloo's, which this waits for, may be the last to let go of a tensor that Python
  // knows, and then needs Python's lock. Who destroys a DDP model has it.
  without_gil([this] {
    // What the caller has issued and not waited for reaches the other ranks, as with Gloo.
    worker_.drain();
    worker_.stop();
    gloo_.reset();
  });
}

void ProcessGroup::close_all() {
  const std::lock_guard lock(groups().mutex);
  for (ProcessGroup* group : groups().all) {
    group->worker_.stop();
    const std::unique_lock closing(group->gate_->mutex);
    group->gate_->closed = true;
  }
}

Collective::Ptr ProcessGroup::issue(c10d::OpType type, const char* title, Tensors inputs, Tensors outputs,
                                    Steps steps) {
  auto work = c10::make_intrusive<Collective>(getRank(), type, title, std::move(inputs), std::move(outputs),
                                              std::move(steps), gate_);
  Collective::issue(work, worker_);
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

ProcessGroup::Work ProcessGroup::together(std::vector<Collective::Ptr> parts) {
  if (parts.size() == 1) return parts.front();
  return c10::make_intrusive<Coalesced>(getRank(), std::move(parts));
}

void ProcessGroup::startCoalescing() {
  TORCH_CHECK(!coalescing_, "startCoalescing was called twice");
  coalescing_ = true;
}

ProcessGroup::Work ProcessGroup::endCoalescing() {
  TORCH_CHECK(coalescing_, "endCoalescing was called without startCoalescing");
  coalescing_ = false;
  return together(std::exchange(coalesced_, {}));
}

ProcessGroup::Work ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  return issue(c10d::OpType::BARRIER, "ocl:barrier", {}, {},
               {[gloo = gloo_, options](HostTensors&) {
                  auto here = options;
                  here.device.reset();
                  here.device_ids.clear();
                  return gloo->barrier(here);
                },
                {}});
}

void ProcessGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  worker_.drain();
  gloo_->monitoredBarrier(options, wait_all_ranks);
}

void ProcessGroup::abort() { gloo_->abort(); }

void ProcessGroup::shutdown() {
  worker_.drain();
  gloo_->shutdown();
}

void add_to_process_group(const std::string& name) {
  const auto group = c10d::resolve_process_group(name);
  auto backend = c10::make_intrusive<ProcessGroup>(group->getBackend(c10::kCPU), group->getRank(), group->getSize());
  group->setBackend(c10::kPrivateUse1, c10d::ProcessGroup::BackendType::CUSTOM, std::move(backend));
}

void close_process_groups() { ProcessGroup::close_all(); }

void set_without_gil(WithoutGil call) { without_gil_call = call; }

}  // namespace ocl::distributed
