// Deferred elementwise operators over lists, such as those of an optimizer's step, which are fused to one launch: every
// part of a tensor goes through all of them while it is in the cache. The results are those of single launches.
//
// Deferred work must not be lost, and its errors belong to the operator that caused them. So everything that can fail
// is done when the operator is called: addresses are checked here, kernels and tables are prepared by the caller
// (foreach.cpp). Should the driver refuse a launch nevertheless, the rows that were not issued stay in the chain, and
// the next flush issues them.
#pragma once

#include "ops/foreach/foreach.h"

#include <deque>
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
  // Issues a stage by itself, or several at once as foreach_chain of kernels_cl/foreach/foreach.cl; the latter returns
  // false and issues nothing while that kernel is being compiled. `issued`: see launch_multi_tensor.
  using Single = void (*)(Queue& queue, const Stage& stage, size_t& issued);
  using Fused = bool (*)(Queue& queue, DType dtype, const MultiTensor& work, size_t& issued);

  static constexpr size_t most_stages = 15;

  // The chain of a queue, made at first use and kept for ever.
  static ForeachChain& of(Queue& queue, Single single, Fused fused);

  // Defers the stage (Queue::defer) until something else is issued to the queue, or a stage that cannot be fused.
  // Errors: InvalidArgument for addresses that are not memory of the queue's device; nothing is deferred then.
  void add(Stage stage);

 private:
  ForeachChain(Queue& queue, Single single, Fused fused) : queue_(queue), single_(single), fused_(fused) {}

  // What is known of tensor i of all lists: the distinct addresses, and which of them are written.
  struct Row {
    int count = 0;
    unsigned written = 0;
    std::array<const void*, multi_tensor_lists> data{};
    // The address's place, added when there is room; -1 otherwise.
    int place(const void* address);
  };

  bool append(const Stage& stage);
  bool separate() const;
  bool worthwhile();
  bool issue_fused(size_t& issued) noexcept;
  void flush();

  static constexpr size_t most_extras = 4;

  Queue& queue_;
  const Single single_;
  const Fused fused_;
  std::mutex mutex_;
  std::vector<Stage> stages_;    // to be fused
  std::deque<Stage> remainder_;  // before them, to be issued singly: a launch failed
  std::vector<uint64_t> words_;  // of stages_
  std::vector<Row> rows_;
  std::vector<const void*> extras_;
  int long_chains_ = 0;
  bool fuses_ = true;  // the program for fused stages compiles
};

}  // namespace ocl::ops
