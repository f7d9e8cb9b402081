#include "onnxruntime/program.h"

#include "onnxruntime/fusion.h"
#include "onnxruntime/graph.h"
#include "opencl/memory/segment.h"
#include "ops/core/device_errors.h"
#include "ops/elementwise/elementwise.h"
#include "ops/index/index.h"

#include <algorithm>

namespace ocl::ort {

Program::Program(Device& device, const OrtGraph* graph, const OrtNode* fused)
    : device_(device), queue_(device.default_queue()) {
  add_constants(graph);
  for (const ValueInfo& input : inputs_of(fused)) {
    const auto [at, added] = slots_.emplace(input.name, static_cast<int>(constants_.size()) + values_);
    values_ += added;
    inputs_.push_back(at->second);
  }
  std::vector<Node> nodes;
  for (const OrtNode* node : nodes_of(graph)) nodes.push_back(read_node(node));
  std::vector<std::string> given;
  for (const ValueInfo& output : outputs_of(fused)) given.push_back(output.name);
  fuse(nodes, given);
  for (const Node& node : nodes) add_step(node);
  for (const std::string& name : given) outputs_.push_back(slot_of(name));
  find_last_uses();
  queue_.finish();
}

int Program::slot_of(const std::string& name) const {
  const auto found = slots_.find(name);
  if (found == slots_.end()) throw Error("the subgraph has no value '" + name + "'");
  return found->second;
}

// Constants come first, so that a slot's number tells what it is.
void Program::add_constants(const OrtGraph* graph) {
  for (const OrtNode* node : nodes_of(graph)) {
    size_t count = 0;
    check(api->Node_GetNumInputs(node, &count));
    std::vector<const OrtValueInfo*> handles(count);
    if (count) check(api->Node_GetInputs(node, handles.data(), count));
    for (const OrtValueInfo* handle : handles) {
      if (!handle) continue;
      const ValueInfo info = read_value(handle);
      if (!info.initializer || slots_.contains(info.name)) continue;
      const TensorData data = read_constant(handle);
      Value value = upload(queue_, data.dtype, data.sizes, data.elements);
      value.host = info.constant;
      slots_.emplace(info.name, static_cast<int>(constants_.size()));
      constants_.push_back(std::move(value));
    }
  }
}

void Program::add_step(const Node& node) {
  Step step;
  step.name = node.op + " '" + node.name + "'";
  step.kernel = make_kernel(node, device_);
  for (const ValueInfo& input : node.inputs) step.inputs.push_back(input.present() ? slot_of(input.name) : -1);
  for (const ValueInfo& output : node.outputs) {
    if (output.present()) slots_.emplace(output.name, static_cast<int>(constants_.size()) + values_++);
    step.outputs.push_back(output.present() ? slot_of(output.name) : -1);
  }
  steps_.push_back(std::move(step));
}

void Program::find_last_uses() {
  std::vector<int> last(constants_.size() + static_cast<size_t>(values_), -1);
  for (size_t s = 0; s < steps_.size(); ++s)
    for (const auto* list : {&steps_[s].inputs, &steps_[s].outputs})
      for (const int slot : *list)
        if (slot >= 0) last[static_cast<size_t>(slot)] = static_cast<int>(s);
  for (size_t slot = constants_.size(); slot < last.size(); ++slot) {
    const bool given = std::ranges::find(outputs_, static_cast<int>(slot)) != outputs_.end();
    if (last[slot] >= 0 && !given) steps_[static_cast<size_t>(last[slot])].last_used.push_back(static_cast<int>(slot));
  }
}

void Program::read_inputs(OrtKernelContext* context, Run& run) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (static_cast<size_t>(inputs_[i]) < constants_.size()) continue;
    const OrtValue* tensor = nullptr;
    check(api->KernelContext_GetInput(context, i, &tensor));
    if (!tensor) continue;
    const TensorData data = read_tensor(tensor);
    Value& value = run.slot(inputs_[i]);
    if (find_segment(data.elements).device == &device_) {
      value.view = TensorView::contiguous(const_cast<void*>(data.elements), data.dtype, data.sizes);
      continue;
    }
    if (count_of(data.sizes) > 0 &&
        ep_api->MemoryDevice_GetDeviceType(ep_api->Value_GetMemoryDevice(tensor)) != OrtMemoryInfoDeviceType_CPU)
      throw InvalidArgument("an input lies in the memory of another device");
    value = upload(queue_, data.dtype, data.sizes, data.elements);
    if (count_of(data.sizes) <= host_limit && HostTensor::handles(data.dtype))
      value.host = std::make_shared<HostTensor>(HostTensor::decode(data.dtype, data.sizes, data.elements));
  }
}

namespace {

void* output_memory(OrtKernelContext* context, size_t index, const Sizes& sizes) {
  OrtValue* tensor = nullptr;
  check(api->KernelContext_GetOutput(context, index, sizes.data(), sizes.size(), &tensor));
  void* data = nullptr;
  if (tensor) check(api->GetTensorMutableData(tensor, &data));
  return data;
}

}  // namespace

void Program::finish_outputs(OrtKernelContext* context, Run& run) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Value& value = run.read(outputs_[i]);
    const Sizes sizes = sizes_of(value.view);
    void* to = output_memory(context, i, sizes);
    const size_t bytes = static_cast<size_t>(count_of(sizes)) * ops::size_of(value.view.dtype);
    if (!to || to == value.view.data || bytes == 0) continue;
    const bool device_memory = find_segment(to).device == &device_;
    if (value.host) {
      const std::vector<std::byte> elements = value.host->encode();
      if (device_memory)
        queue_.write(to, elements.data(), bytes);
      else
        std::copy(elements.begin(), elements.end(), static_cast<std::byte*>(to));
      continue;
    }
    const TensorView dense = run.dense(value.view);
    if (device_memory)
      queue_.copy(to, dense.data, bytes);
    else
      queue_.read(to, dense.data, bytes);
  }
  queue_.finish();
  ops::check_device_errors(queue_);
}

void Program::compute(OrtKernelContext* context) const {
  const auto place = [&](int slot, DType, const Sizes& sizes) -> void* {
    const auto found = std::ranges::find(outputs_, slot);
    if (found == outputs_.end()) return nullptr;
    void* data = output_memory(context, static_cast<size_t>(found - outputs_.begin()), sizes);
    return find_segment(data).device == &device_ ? data : nullptr;
  };
  Run run(queue_, constants_, values_, place);
  read_inputs(context, run);
  for (const Step& step : steps_) run.step(step);
  finish_outputs(context, run);
}

}  // namespace ocl::ort
