#include "ops/softmax/softmax.h"

#include "ops/core/lanes.h"
#include "params/softmax.h"

#include <algorithm>
#include <cstdint>

namespace ocl::ops {
namespace {

using params::SoftmaxShape;

struct Sites {
  KernelSite rows, columns;
};
Sites cpu_forward{{"softmax/softmax.cpu.cl", "rows_forward"}, {"softmax/softmax.cpu.cl", "columns_forward"}};
Sites cpu_backward{{"softmax/softmax.cpu.cl", "rows_backward"}, {"softmax/softmax.cpu.cl", "columns_backward"}};
Sites cpu_logsumexp{{"softmax/softmax.cpu.cl", "rows_logsumexp"}, {"softmax/softmax.cpu.cl", "columns_logsumexp"}};
Sites gpu_forward{{"softmax/softmax.gpu.cl", "rows_forward"}, {"softmax/softmax.gpu.cl", "columns_forward"}};
Sites gpu_logsumexp{{"softmax/softmax.gpu.cl", "rows_logsumexp"}, {"softmax/softmax.gpu.cl", "columns_logsumexp"}};
Sites gpu_backward{{"softmax/softmax.gpu.cl", "rows_backward"}, {"softmax/softmax.gpu.cl", "columns_backward"}};

// How GPU kernels share out a row (softmax/softmax.gpu.cl): work-items, elements of each in registers (0: none),
// elements of a load.
struct RowShare {
  int items = 256, kept = 0, vector = 1;
};

// `tensors`: how many elements of each position are in registers.
RowShare row_share(const Device& device, const SoftmaxProblem& p, int tensors, bool aligned) {
  RowShare share;
  if (p.inner != 1) return share;
  share.vector = aligned && p.n % 4 == 0 ? 4 : 1;
  const int most = static_cast<int>(32 * sizeof(float) / acc_bytes(p.input)) / tensors;
  const int64_t largest = std::min<int64_t>(static_cast<int64_t>(device.capabilities().max_work_group), 1024);
  static constexpr struct {
    int items, kept;
  } shares[] = {{64, 8}, {256, 8}, {256, 16}, {256, 32}, {1024, 8}, {1024, 16}, {1024, 32}};
  for (const auto& [items, kept] : shares) {
    const bool registers =
        share.vector == 4 || items * kept <= 16384;  // single elements need more of them for their addresses
    if (registers && kept <= most && items <= largest && p.n <= items * kept) {
      share.items = items, share.kept = kept;
      return share;
    }
  }
  share.items = static_cast<int>(largest >= 1024 ? 1024 : 256);
  return share;
}

Kernel& kernel(KernelSite& site, Device& device, const SoftmaxProblem& p, const RowShare& share = {}) {
  return site.get(
      device,
      Variant().add(p.input).add(p.output).add(p.log, 1).add(share.items, 11).add(share.kept, 6).add(share.vector, 3),
      [&] {
        Defines defines = lane_defines(p.input);
        if (!device.cpu_style()) defines.add("ITEMS", share.items).add("KEPT", share.kept).add("VECTOR", share.vector);
        dtype(defines, "Y_DTYPE", p.output);
        // Exponentials are parked in the output where that loses nothing.
        return defines.add("LOG", p.log).add("KEEP_EXP", !is_half(p.output));
      });
}

// All tensors but one are read in full.
void run(Queue& queue, const SoftmaxProblem& p, Sites& cpu, Sites& gpu, const auto&... tensors) {
  Device& device = queue.device();
  require_floating(device, p.input, "softmax");
  require(is_floating(p.output), "softmax: the output must be floating");
  const int64_t elements = p.outer * p.n * p.inner;
  if (elements == 0) return;
  const SoftmaxShape shape{p.outer, p.n, p.inner};
  if (device.cpu_style()) {
    const int64_t units = p.inner == 1 ? p.outer : p.outer * ceil_div(p.inner, lanes_of(p.input));
    const int64_t tasks = std::min(units, cpu_tasks(device, elements, 8192));
    launch(queue, kernel(p.inner == 1 ? cpu.rows : cpu.columns, device, p), Range(tasks), Range(1), tensors..., shape);
  } else if (p.inner == 1) {
    const uintptr_t addresses = (reinterpret_cast<uintptr_t>(tensors) | ...),
                    whole = 4 * std::max(size_of(p.input), size_of(p.output));
    const RowShare share = row_share(device, p, sizeof...(tensors) - 1, addresses % whole == 0);
    const auto items = static_cast<size_t>(share.items);
    launch(queue, kernel(gpu.rows, device, p, share), Range(p.outer * items), Range(items), tensors..., shape);
  } else {
    launch(queue, kernel(gpu.columns, device, p), gpu_range(p.outer * p.inner, 64), Range(64), tensors..., shape);
  }
}

}  // namespace

SoftmaxProblem softmax_problem(const TensorView& x, int64_t dim, DType output, bool log) {
  SoftmaxProblem p;
  p.input = x.dtype;
  p.output = output;
  p.log = log;
  if (x.dims == 0) return p;
  const int axis = static_cast<int>(dim < 0 ? dim + x.dims : dim);
  require(axis >= 0 && axis < x.dims, "softmax: dimension out of range");
  for (int d = 0; d < x.dims; ++d) (d < axis ? p.outer : d > axis ? p.inner : p.n) *= x.sizes[d];
  return p;
}

void softmax_forward(Queue& queue, const SoftmaxProblem& p, const void* x, void* y) {
  run(queue, p, cpu_forward, gpu_forward, x, y);
}

void softmax_backward(Queue& queue, const SoftmaxProblem& p, const void* grad, const void* y, void* dx) {
  run(queue, p, cpu_backward, gpu_backward, grad, y, dx);
}

void logsumexp(Queue& queue, const SoftmaxProblem& p, const void* x, void* y) {
  run(queue, p, cpu_logsumexp, gpu_logsumexp, x, y);
}

bool prefers_logsumexp(const Device& device, const SoftmaxProblem& p) {
  const int64_t results = p.outer * p.inner;
  if (!device.cpu_style() && p.inner > 1) return p.n <= 1024 || results >= 16384;  // one work-item for each
  return p.n <= 16384 || results >= 16;
}

}  // namespace ocl::ops
