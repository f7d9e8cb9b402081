// Elementwise operators over lists that follow each other, such as those of an optimizer's step, joined to one launch:
// every part of a tensor goes through all of them while it is in the cache. The results are those of single launches.
#pragma once

#include "ops/foreach/foreach.h"

#include <map>
#include <mutex>

namespace ocl::ops {

class ForeachChain {
 public:
  struct Stage {
    Foreach op;
    int inputs;
    DType dtype;
    std::vector<MultiTensorRow> rows;
    const void* scalar_address;
  };
  // Issues a stage by itself, or several at once as foreach_chain of kernels_cl/foreach/foreach.cl; false, and nothing
  // is issued, while that is being compiled.
  using Single = void (*)(Queue& queue, const Stage& stage);
  using Joined = bool (*)(Queue& queue, DType dtype, const MultiTensor& work);

  // The chain of a queue, made at first use and kept for ever.
  static ForeachChain& of(Queue& queue, Single single, Joined joined);

  // Holds the stage back (Queue::defer) until something else is issued to the queue, or a stage that cannot be
  // joined.
  void add(Stage stage);

 private:
  ForeachChain(Queue& queue, Single single, Joined joined) : queue_(queue), single_(single), joined_(joined) {}

  // What is known of tensor i of all lists: the distinct addresses, and which of them are written.
  struct Row {
    int count = 0;
    unsigned written = 0;
    std::array<const void*, multi_tensor_lists> data{};
    // The address's place, added when there is room; -1 otherwise.
    int place(const void* address);
  };

  bool append(const Stage& stage);
  bool separate(const std::vector<Stage>& stages) const;
  void issue();
  bool worthwhile();
  bool issue_joined(const std::vector<Stage>& stages);

  static constexpr size_t most_stages = 15, most_extras = 4;

  Queue& queue_;
  const Single single_;
  const Joined joined_;
  std::mutex mutex_;
  std::vector<Stage> stages_;
  std::vector<uint64_t> words_;  // of the stages
  std::vector<Row> rows_;
  std::vector<const void*> extras_;
  int long_chains_ = 0;
};

}  // namespace ocl::ops
