// A compiled subgraph: its constants on the device, and the steps in order.
#pragma once

#include "onnxruntime/graph.h"
#include "onnxruntime/operator.h"

#include <unordered_map>

namespace ocl::ort {

class Program {
 public:
  // Uploads the constants. `fused`: the node that stands for the subgraph, whose inputs and outputs the program has.
  // Errors: ocl::Error.
  Program(Device& device, const OrtGraph* graph, const OrtNode* fused);

  // Runs on the inputs of a call, sets its outputs and waits for them. Any thread. Errors: ocl::Error.
  void compute(OrtKernelContext* context) const;

 private:
  int slot_of(const std::string& name) const;
  void add_constants(const OrtGraph* graph);
  Step make_step(const Node& node) const;
  // Runs a node of constants now, so that its results are constants as well; false where it is none.
  bool fold(const Node& node);
  void fold_all(std::vector<Node>& nodes);
  void add_steps(const std::vector<Node>& nodes);
  void release_unread_constants();
  void find_last_uses();
  void read_inputs(OrtKernelContext* context, Run& run) const;
  void finish_outputs(OrtKernelContext* context, Run& run) const;

  Device& device_;
  Queue& queue_;
  std::vector<Value> constants_;
  std::unordered_map<std::string, int> slots_;
  std::unordered_map<std::string, ValueInfo> folded_;  // constants that no initializer is
  int values_ = 0;                                     // slots that are no constants
  std::vector<Step> steps_;
  std::vector<int> inputs_, outputs_;  // slots by the position of the fused node
};

}  // namespace ocl::ort
