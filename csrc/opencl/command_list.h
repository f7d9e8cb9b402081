// Commands that are issued to a queue while it captures, kept to be issued again: what PyTorch calls a graph.
//
// Capturing is a state of the queue, not of a thread. Nothing runs meanwhile. A queue that waits for an event which was
// recorded on a capturing one captures too, to the same list: in the order of issue, which honours every dependency.
// What would need results (finish, blocking reads) is refused, and the capture is then invalid; queues are usable
// afterwards in any case.
#pragma once

#include "opencl/launch.h"
#include "opencl/queue.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ocl {

// Where random numbers of a list come from, asked once for each replay.
struct RandomSource {
  virtual ~RandomSource() = default;
  // Reserves counters of Philox: (seed, first counter).
  virtual std::pair<uint64_t, uint64_t> reserve(uint64_t counters) = 0;
};

class CommandList : public std::enable_shared_from_this<CommandList> {
 public:
  // Memory that is allocated on capturing queues comes from this pool (CachingAllocator::new_pool), which the list
  // keeps. Lists are made by std::make_shared.
  CommandList(Device& device, uint64_t pool);
  ~CommandList();
  CommandList(const CommandList&) = delete;

  Device& device() const { return device_; }
  uint64_t pool() const { return pool_; }
  size_t size() const;  // commands

  // The queue captures from now on, and its work so far has ended. Errors: Error when it does already.
  void begin(Queue& queue);
  // begin() for a further queue of the same capture.
  void join(Queue& queue);
  // No queue captures any longer. Errors: Error when something was refused; the list is empty then.
  void end();
  bool capturing() const { return capturing_; }
  // Captures in progress in this process.
  static int captures();

  // Issues the commands. Errors: as issuing them one by one; Error while a capture is in progress on `queue`.
  void replay(Queue& queue);

  // The capture becomes invalid. Throws Error, which says that `what` is not permitted.
  [[noreturn]] void refuse(const std::string& what);
  // Device memory with these bytes, for as long as the list lives.
  void* constant(Queue& queue, const void* data, size_t bytes);
  // As Queue::counters, for kernels of this list.
  void* counters(Queue& queue);
  // Random numbers of the source that `key` stands for, made by `make` at its first use: the seed and the first counter
  // to pass to kernels, which every replay replaces (RandomSeed in launch.h).
  std::pair<uint64_t, uint64_t> reserve_random(const void* key,
                                               const std::function<std::unique_ptr<RandomSource>()>& make,
                                               uint64_t counters);

  // ---- what queues record
  void add_launch(Queue& queue, const Arguments& arguments, const Range& global, const Range& local,
                  const Fusion& fusion);
  void add_copy(Queue& queue, void* destination, const void* source, size_t bytes);
  void add_fill(Queue& queue, void* destination, const void* pattern, size_t pattern_bytes, size_t bytes);
  // Of host memory that stays where it is and is looked at by every replay.
  void add_read(Queue& queue, void* host, const void* source, size_t bytes);
  void add_write(Queue& queue, void* destination, const void* host, size_t bytes);

  // One line for each command, for people.
  std::string text() const;

 private:
  struct RandomStream;
  struct Step;
  Step& add(Queue& queue, int kind);
  size_t keep(const void* data, size_t bytes);
  void issue(Queue& queue, const Step& step) const;
  void leave();
  void clear();

  Device& device_;
  const uint64_t pool_;
  bool capturing_ = false;
  mutable std::recursive_mutex mutex_;
  std::vector<Queue*> queues_;  // that capture
  std::vector<Step> steps_;
  std::vector<char> kept_;  // arguments, fusions and patterns of the steps
  std::vector<void*> constants_;
  std::vector<const void*> segments_;  // captured_segments.h
  void* counters_ = nullptr;
  std::string failure_;
  std::vector<std::shared_ptr<RandomStream>> random_;  // of this list's own sources
  std::vector<std::shared_ptr<RandomStream>> others_;  // which kernels of this list read too
  Event last_;                                         // of the last replay, on devices without executor()
  Queue* last_queue_ = nullptr;
};

}  // namespace ocl
