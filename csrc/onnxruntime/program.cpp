#include "onnxruntime/program.h"

#include "onnxruntime/fusion.h"
#include "onnxruntime/graph.h"
#include "onnxruntime/lowering.h"
#include "opencl/memory/segment.h"
#include "ops/core/device_errors.h"
#include "ops/elementwise/elementwise.h"
#include "ops/index/index.h"

#include <algorithm>

namespace ocl::ort {

namespace {

constexpr int64_t folded_limit = 1 << 20;  // elements that a folded node may make beyond those that it reads

// As a constant is kept: row-major, and on the host as well where that is small.
Value settled(Queue& queue, Value value) {
  if (value.host) {
    const auto host = value.host;
    value = upload(queue, *host);
    if (host->count() <= host_limit) value.host = host;
    return value;
  }
  if (!value.view.is_contiguous()) {
    Value copy;
    const Sizes sizes = sizes_of(value.view);
    copy.memory = allocate(queue, static_cast<size_t>(value.view.numel()) * ops::size_of(value.view.dtype));
    copy.view = TensorView::contiguous(copy.memory.get(), value.view.dtype, sizes);
    ops::copy_strided(queue, copy.view, value.view);
    value = std::move(copy);
  }
  if (value.view.numel() <= host_limit && HostTensor::handles(value.view.dtype))
    value.host = std::make_shared<const HostTensor>(download(queue, value.view));
  return value;
}

}  // namespace

Program::Program(Device& device, const OrtGraph* graph, const OrtNode* fused)
    : device_(device), queue_(device.default_queue()) {
  add_constants(graph);
  std::vector<Node> nodes;
  for (const OrtNode* node : nodes_of(graph))
    for (Node& part : lower(read_node(node))) nodes.push_back(std::move(part));
  std::vector<std::string> given;
  for (const ValueInfo& output : outputs_of(fused)) given.push_back(output.name);
  fold_all(nodes);
  fuse(nodes, given);
  fold_all(nodes);
  for (const ValueInfo& input : inputs_of(fused)) {
    const auto [at, added] = slots_.emplace(input.name, static_cast<int>(constants_.size()) + values_);
    values_ += added;
    inputs_.push_back(at->second);
  }
  add_steps(nodes);
  for (const std::string& name : given) outputs_.push_back(slot_of(name));
  find_last_uses();
  release_unread_constants();
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

Step Program::make_step(const Node& node) const {
  Step step;
  step.name = node.op + " '" + node.name + "'";
  step.kernel = make_kernel(node, device_);
  return step;
}

bool Program::fold(const Node& node) {
  Step step = make_step(node);
  int64_t read = 0;
  for (const ValueInfo& input : node.inputs) {
    if (input.present() && !slots_.contains(input.name)) return false;
    step.inputs.push_back(input.present() ? slot_of(input.name) : -1);
    if (input.present()) read += constants_[static_cast<size_t>(step.inputs.back())].view.numel();
  }
  const int first = static_cast<int>(constants_.size());
  for (size_t i = 0; i < node.outputs.size(); ++i)
    step.outputs.push_back(node.outputs[i].present() ? first + static_cast<int>(i) : -1);
  Run run(queue_, constants_, static_cast<int>(node.outputs.size()), nullptr);
  std::vector<Value> results;
  try {
    run.step(step);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].present()) continue;
      Value value = run.slot(first + static_cast<int>(i));
      // What only repeats constants is not worth its memory.
      if (value.view.numel() > read + folded_limit) return false;
      results.push_back(settled(queue_, std::move(value)));
    }
  } catch (const std::exception&) {
    return false;  // it says so when the model runs
  }
  size_t next = 0;
  for (const ValueInfo& output : node.outputs) {
    if (!output.present()) continue;
    Value& value = results[next++];
    ValueInfo& info = folded_[output.name] = output;
    info.dtype = value.view.dtype, info.ranked = true, info.sizes = sizes_of(value.view);
    info.initializer = true, info.constant = value.host;
    slots_.emplace(output.name, static_cast<int>(constants_.size()));
    constants_.push_back(std::move(value));
  }
  return true;
}

void Program::fold_all(std::vector<Node>& nodes) {
  std::erase_if(nodes, [&](Node& node) {
    for (ValueInfo& input : node.inputs)
      if (const auto found = folded_.find(input.name); found != folded_.end()) input = found->second;
    return fold(node);
  });
}

void Program::add_steps(const std::vector<Node>& nodes) {
  for (const Node& node : nodes) {
    Step step = make_step(node);
    for (const ValueInfo& input : node.inputs) step.inputs.push_back(input.present() ? slot_of(input.name) : -1);
    for (const ValueInfo& output : node.outputs) {
      if (output.present()) slots_.emplace(output.name, static_cast<int>(constants_.size()) + values_++);
      step.outputs.push_back(output.present() ? slot_of(output.name) : -1);
    }
    steps_.push_back(std::move(step));
  }
}

// Those that nodes read which were folded.
void Program::release_unread_constants() {
  std::vector<bool> read(constants_.size() + static_cast<size_t>(values_));
  for (const int slot : outputs_) read[static_cast<size_t>(slot)] = true;
  for (const Step& step : steps_)
    for (const int slot : step.inputs)
      if (slot >= 0) read[static_cast<size_t>(slot)] = true;
  for (size_t i = 0; i < constants_.size(); ++i)
    if (!read[i]) constants_[i] = {};
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
