// The thread that starts a group's collectives in the order of issue.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace ocl::distributed {

class Task {
 public:
  virtual ~Task() = default;
  // Whether run() would wait for nothing.
  virtual bool ready() = 0;
  virtual void run() noexcept = 0;
  // Instead of run(), once the worker has been stopped.
  virtual void cancel() noexcept = 0;
};

// Every rank has to start collectives in one order, and none may keep its caller waiting for the device: a task whose
// data are not ready yet waits on the worker's thread, and with it those behind it. A task that is ready, with none
// before it, runs at once on the caller's thread: a change of threads costs more than a small message.
class Worker {
 public:
  Worker();
  ~Worker();
  Worker(const Worker&) = delete;

  void issue(std::shared_ptr<Task> task);
  // Returns once nothing is queued or running.
  void drain();
  // Cancels what is queued, waits for what runs, and ends the thread. Tasks issued later are cancelled.
  void stop();

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Task>> queue_;
  bool busy_ = false, stopped_ = false;
  std::thread thread_;
};

}  // namespace ocl::distributed
