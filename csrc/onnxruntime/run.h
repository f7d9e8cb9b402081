// One call of a compiled subgraph: the values that exist, and the inputs and outputs of the node that runs.
#pragma once

#include "onnxruntime/value.h"

#include <functional>
#include <string>

namespace ocl::ort {

// A node of a compiled subgraph; values are numbers of slots, -1 where absent.
struct Step {
  std::string name;  // for errors: "Conv 'conv1'"
  std::function<void(class Run&)> kernel;
  std::vector<int> inputs, outputs;
  std::vector<int> last_used;  // slots that nobody reads behind this step
};

class Run {
 public:
  // Memory for an output of the subgraph of these sizes; null: it is copied later from where the run puts it.
  using Place = std::function<void*(int slot, DType dtype, const Sizes& sizes)>;

  // Slots [0, constants.size()) are the constants, which outlive the run; the others are `slots` more.
  Run(Queue& queue, const std::vector<Value>& constants, int slots, Place place);

  Queue& queue() const { return queue_; }
  Value& slot(int number) { return values_[static_cast<size_t>(number) - constants_.size()]; }
  const Value& read(int number) const;
  // Runs one step; errors get the step's name.
  void step(const Step& step);

  // ---- for kernels: inputs by position
  bool has(int input) const;
  const Value& value(int input) const { return read(step_->inputs[input]); }
  int inputs() const { return static_cast<int>(step_->inputs.size()); }
  Sizes sizes(int input) const { return sizes_of(value(input).view); }
  int rank(int input) const { return value(input).view.dims; }
  DType dtype(int input) const { return value(input).view.dtype; }
  // On the device; any strides, or row-major.
  TensorView view(int input);
  TensorView dense(int input);
  // Row-major copy of a view, unless it is row-major itself; the memory lives until the step has been issued.
  TensorView dense(const TensorView& view);
  // Scratch memory until the step has been issued.
  TensorView scratch(DType dtype, const Sizes& sizes);
  // Whether the host has the elements already, or all inputs' elements.
  bool on_host(int input) const { return value(input).host != nullptr; }
  bool all_on_host() const;
  // The elements on the host; waits for the device where they are there only.
  const HostTensor& host(int input);

  // ---- outputs by position
  int outputs() const { return static_cast<int>(step_->outputs.size()); }
  bool wants(int output) const { return output < outputs() && step_->outputs[output] >= 0; }
  TensorView output(int output, DType dtype, const Sizes& sizes);  // new memory, row-major
  // The output is this view of the memory of an input.
  void alias(int output, int input, const TensorView& view);
  void give(int output, HostTensor tensor);
  // Memory that the outputs may keep.
  void give(int output, Value value);

 private:
  void set(int output, Value value);

  Queue& queue_;
  const std::vector<Value>& constants_;
  std::vector<Value> values_;
  Place place_;
  const Step* step_ = nullptr;
  std::vector<std::shared_ptr<void>> scratch_;
};

}  // namespace ocl::ort
