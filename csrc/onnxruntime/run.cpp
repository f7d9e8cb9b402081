#include "onnxruntime/run.h"

#include "base/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/index/index.h"

namespace ocl::ort {

Run::Run(Queue& queue, const std::vector<Value>& constants, int slots, Place place)
    : queue_(queue), constants_(constants), values_(static_cast<size_t>(slots)), place_(std::move(place)) {}

const Value& Run::read(int number) const {
  const auto at = static_cast<size_t>(number);
  return at < constants_.size() ? constants_[at] : values_[at - constants_.size()];
}

void Run::step(const Step& step) {
  step_ = &step;
  try {
    step.kernel(*this);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(step.name + ": " + error.what());
  } catch (const Error& error) {
    throw Error(step.name + ": " + error.what());
  }
  scratch_.clear();
  for (const int slot : step.last_used) this->slot(slot) = {};
}

bool Run::has(int input) const { return input < inputs() && step_->inputs[input] >= 0; }

TensorView Run::view(int input) {
  const int number = step_->inputs[input];
  const Value& value = read(number);
  if (value.view.data) return value.view;
  // Only values of this run lie on the host alone.
  const auto host = value.host;
  Value& mine = slot(number);
  mine = upload(queue_, *host);
  mine.host = host;
  return mine.view;
}

TensorView Run::dense(int input) {
  const TensorView strided = view(input);
  if (strided.is_contiguous()) return strided;
  const TensorView copy = dense(strided);
  const auto number = static_cast<size_t>(step_->inputs[input]);
  if (number >= constants_.size()) {  // who asks next finds the copy
    Value& mine = slot(static_cast<int>(number));
    mine.view = copy;
    mine.memory = scratch_.back();
  }
  return copy;
}

TensorView Run::dense(const TensorView& strided) {
  if (strided.is_contiguous()) return strided;
  const TensorView copy = scratch(strided.dtype, sizes_of(strided));
  ops::copy_strided(queue_, copy, strided);
  return copy;
}

TensorView Run::scratch(DType dtype, const Sizes& sizes) {
  scratch_.push_back(allocate(queue_, static_cast<size_t>(count_of(sizes)) * ops::size_of(dtype)));
  return TensorView::contiguous(scratch_.back().get(), dtype, sizes);
}

bool Run::all_on_host() const {
  for (int i = 0; i < inputs(); ++i)
    if (has(i) && !on_host(i)) return false;
  return true;
}

const HostTensor& Run::host(int input) {
  const int number = step_->inputs[input];
  if (const auto& known = read(number).host) return *known;
  auto tensor = std::make_shared<const HostTensor>(download(queue_, dense(input)));
  // A large constant, whose elements no kernel needs twice in a run, is kept for this step.
  if (static_cast<size_t>(number) < constants_.size()) {
    scratch_.push_back(std::const_pointer_cast<HostTensor>(tensor));
    return *tensor;
  }
  return *(slot(number).host = std::move(tensor));
}

TensorView Run::output(int output, DType dtype, const Sizes& sizes) {
  if (!wants(output)) return scratch(dtype, sizes);
  Value value;
  void* data = place_ ? place_(step_->outputs[output], dtype, sizes) : nullptr;
  if (!data) {
    value.memory = allocate(queue_, static_cast<size_t>(count_of(sizes)) * ops::size_of(dtype));
    data = value.memory.get();
  }
  value.view = TensorView::contiguous(data, dtype, sizes);
  const TensorView view = value.view;
  set(output, std::move(value));
  return view;
}

void Run::alias(int output, int input, const TensorView& view) { set(output, {view, value(input).memory, nullptr}); }

void Run::give(int output, HostTensor tensor) {
  Value value;
  value.view = TensorView::contiguous(nullptr, tensor.dtype, tensor.sizes);
  value.host = std::make_shared<const HostTensor>(std::move(tensor));
  set(output, std::move(value));
}

void Run::give(int output, Value value) { set(output, std::move(value)); }

void Run::set(int output, Value value) {
  if (wants(output)) slot(step_->outputs[output]) = std::move(value);
}

}  // namespace ocl::ort
