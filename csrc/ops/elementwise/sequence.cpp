#include "ops/elementwise/sequence.h"

#include "base/environment.h"
#include "opencl/launch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace ocl::ops {

namespace {

using params::most_steps;
static_assert(most_steps == Fusion::most);

// This many sequences are run step by step before the program for fused ones is built.
constexpr int sequences_before_program = 32;

// What scripts write out in sequences; the program would take long to build with all rows.
constexpr const char* fusable_rows[] = {
    "copy",
    "fill",
    "add",
    "add_alpha",
    "sub",
    "mul",
    "div",
    "pow_2",
    "pow_3",
    "addcmul",
    "addcdiv",
    "maximum",
    "minimum",
    "abs",
    "neg",
    "sqrt",
    "rsqrt",
    "exp",
    "tanh",
    "reciprocal",
    "sigmoid",
    "silu",
    "relu",
    "clamp",
    "clamp_min",
    "clamp_max",
    "lerp_scalar",
    "threshold_backward",
    "sigmoid_backward",
    "tanh_backward",
};

// The number by which the program knows a row; -1: it does not.
int operator_of(const ElementwiseRow& row) {
  static const auto operators = [] {
    std::vector<int> found;
    for (const ElementwiseRow& each : elementwise_table()) {
      const auto* at = std::find(std::begin(fusable_rows), std::end(fusable_rows), std::string_view(each.name));
      found.push_back(at == std::end(fusable_rows) ? -1 : static_cast<int>(at - std::begin(fusable_rows)));
    }
    return found;
  }();
  return operators[static_cast<size_t>(&row - elementwise_table().data())];
}

bool can_fuse(DType dtype) { return dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16; }

// The program for a device and type, built by a thread that issues calls once sequences have been seen.
class Program {
 public:
  static constexpr size_t most_devices = 64;
  static Program& of(const Device& device, DType dtype) {
    static auto* all = new std::array<std::array<Program, 3>, most_devices>;
    return (*all)[static_cast<size_t>(device.index())][dtype == DType::float32 ? 0 : dtype == DType::bfloat16 ? 1 : 2];
  }

  Kernel* find(const Device& device, DType dtype) {
    if (Kernel* kernel = site().find(device.index(), Variant().add(dtype))) return kernel->ready() ? kernel : nullptr;
    seen_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }

  void build_when_worthwhile(Device& device, DType stored) {
    if (seen_.load(std::memory_order_relaxed) < sequences_before_program || asked_.load(std::memory_order_relaxed) ||
        asked_.exchange(true)) [[likely]]
      return;
    try {
      site().get(device, Variant().add(stored), [&] {
        Defines defines;
        return dtype(defines, "X_DTYPE", stored).add("OPERATORS", operators());
      });
    } catch (const std::exception&) {  // the steps are run one by one as before
      return;
    }
  }

 private:
  static std::string operators() {
    std::string all;
    for (size_t i = 0; i < std::size(fusable_rows); ++i) {
      const ElementwiseRow& row = elementwise_row(fusable_rows[i]);
      const std::string_view expression = row.real;
      int scalars = 0;
      for (const char* name : {"s0", "s1", "s2"}) scalars += expression.find(name) != std::string_view::npos;
      all += "EACH(" + std::to_string(i) + ", " + std::to_string(row.inputs) + ", " + std::to_string(scalars) + ", (" +
             row.real + ")) ";
    }
    return all;
  }
  static KernelSite& site() {
    static KernelSite kernel("elementwise/sequence.cpu.cl", "elementwise_sequence", BuildTime::beside);
    return kernel;
  }

  std::atomic<int> seen_{0};
  std::atomic<bool> asked_{false};
};

bool device_fuses(const Device& device) {
  static const bool wanted = environment::flag("TORCH_OCL_JOIN", true) && !environment::flag("TORCH_OCL_SYNC");
  return wanted && static_cast<size_t>(device.index()) < Program::most_devices && device.cpu_style() &&
         device.executor() && device.capabilities().unified_memory;
}

// Addresses that steps touch.
struct Touched {
  uint64_t begin, end;
  bool written, single;

  bool overlaps(const Touched& other) const { return begin < other.end && other.begin < end; }
  bool same_elements(const Touched& other) const {
    return begin == other.begin && end == other.end && single == other.single;
  }
};

std::atomic<uint64_t> calls_fused{0};

size_t run_fused(const void* const* data, size_t count) {
  const auto* steps = reinterpret_cast<const ElementwiseStep::Data* const*>(data);
  count = ElementwiseStep::fusable(steps, count);
  if (count < 2) return 0;
  Queue& queue = *steps[0]->queue;
  Device& device = queue.device();
  Kernel* kernel = Program::of(device, steps[0]->dtype).find(device, steps[0]->dtype);
  if (!kernel) return 0;
  params::SequenceSteps passed{};
  for (size_t i = 0; i < count; ++i) passed.step[i] = steps[i]->step;
  const int64_t n = steps[0]->n, tasks = cpu_tasks(device, n);
  Arguments arguments(*kernel);
  arguments.add(passed);
  arguments.add(static_cast<int32_t>(count));
  arguments.add(n);
  arguments.add(round_up(ceil_div(n, tasks), 64));
  device.executor()->run_fused(queue, arguments, Range(static_cast<size_t>(tasks)), Range(1), count);
  calls_fused.fetch_add(count, std::memory_order_relaxed);
  return count;
}

}  // namespace

ElementwiseStep::ElementwiseStep(Queue& queue, const ElementwiseRow& row, const ElementwiseCall& call) {
  const int op = operator_of(row);
  const DType dtype = call.output.dtype;
  if (op < 0 || call.compute != DType::float32 || !can_fuse(dtype) || !device_fuses(queue.device())) return;
  data_ = {&queue, call.sizes[0], dtype, {}};
  Step& step = data_.step;
  step.op = op;
  step.y = std::bit_cast<uint64_t>(call.output.data);
  for (int i = 0; i < row.inputs; ++i) {
    const ElementwiseCall::Operand& input = call.inputs[i];
    if (input.is_scalar) {
      step.value[i] = static_cast<float>(input.scalar.floating.real());
    } else {
      if (input.dtype != dtype) return;
      step.x[i] = std::bit_cast<uint64_t>(input.data);
      step.advances |= static_cast<int32_t>(input.strides[0] == 1) << i;
    }
  }
  for (int i = 0; i < call.scalars; ++i) step.scalar[i] = static_cast<float>(call.scalar[i].floating.real());
  Program::of(queue.device(), dtype).build_when_worthwhile(queue.device(), dtype);
  fuses_ = true;
}

Fusion ElementwiseStep::fusion() const { return fuses_ ? Fusion{run_fused, &data_, sizeof data_} : Fusion{}; }

uint64_t ElementwiseStep::fused_calls() { return calls_fused.load(std::memory_order_relaxed); }

size_t ElementwiseStep::fusable(const Data* const* steps, size_t count) {
  const int64_t n = steps[0]->n;
  const DType dtype = steps[0]->dtype;
  std::array<Touched, most_steps * 4> touched;
  size_t ranges = 0;
  for (size_t i = 0; i < count; ++i) {
    const Data& data = *steps[i];
    if (data.queue != steps[0]->queue || data.n != n || data.dtype != dtype) return i;
    const size_t before = ranges;
    const auto touch = [&](uint64_t address, bool written, bool single) {
      const Touched own{address, address + size_of(dtype) * static_cast<uint64_t>(single ? 1 : n), written, single};
      for (size_t k = 0; k < before; ++k) {
        Touched& other = touched[k];
        if (!own.overlaps(other) || (own.same_elements(other) && !single)) continue;
        if (own.written || other.written) return false;
      }
      touched[ranges++] = own;
      return true;
    };
    if (!touch(data.step.y, true, false)) return i;
    for (int k = 0; k < 3; ++k)
      if (data.step.x[k] && !touch(data.step.x[k], false, n > 1 && !(data.step.advances >> k & 1))) return i;
  }
  return count;
}

}  // namespace ocl::ops
