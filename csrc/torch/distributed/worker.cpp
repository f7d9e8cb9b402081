#include "torch/distributed/worker.h"

#include "base/os.h"

#include <utility>

namespace ocl::distributed {

Worker::Worker() : thread_([this] { loop(); }) {}

Worker::~Worker() { stop(); }

void Worker::issue(std::shared_ptr<Task> task) {
  std::unique_lock lock(mutex_);
  if (stopped_) {
    lock.unlock();
    task->cancel();
    return;
  }
  if (busy_ || !queue_.empty() || !task->ready()) {
    queue_.push_back(std::move(task));
    changed_.notify_all();
    return;
  }
  busy_ = true;
  lock.unlock();
  task->run();
  lock.lock();
  busy_ = false;
  changed_.notify_all();
}

void Worker::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_ && queue_.empty(); });
}

void Worker::stop() {
  std::deque<std::shared_ptr<Task>> cancelled;
  {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    cancelled.swap(queue_);
    changed_.notify_all();
    if (thread_.get_id() != std::this_thread::get_id()) changed_.wait(lock, [this] { return !busy_; });
  }
  for (const std::shared_ptr<Task>& task : cancelled) task->cancel();
  if (!thread_.joinable()) return;
  // A task may hold the last reference to the group that owns this worker.
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

void Worker::loop() {
  os::unbind_thread();
  os::name_thread("ocl-distributed");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopped_ || (!busy_ && !queue_.empty()); });
    if (stopped_) return;
    std::shared_ptr<Task> task = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    task->run();
    task.reset();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace ocl::distributed
