#include "ops/norm/batch_norm.h"

#include "opencl/capabilities/bfloat16_pairs.h"
#include "ops/core/lanes.h"
#include "params/norm.h"

#include <algorithm>

namespace ocl::ops {
namespace {

using params::PlaneShape;
using params::RowShape;
using params::UpdateRule;

// A tensor as [batch, channels, inner]; stride of a dimension of size 1 is 0.
struct Collapsed {
  int64_t batch = 1, channels = 1, inner = 1, batch_stride = 0, channel_stride = 0, inner_stride = 0;
  bool valid = true;
};

Collapsed collapse(const TensorView& x) {
  Collapsed c;
  if (x.dims < 2) {
    c.valid = false;
    return c;
  }
  c.batch = x.sizes[0];
  c.channels = x.sizes[1];
  if (c.batch > 1) c.batch_stride = x.strides[0];
  if (c.channels > 1) c.channel_stride = x.strides[1];
  for (int d = x.dims - 1; d >= 2; --d) {
    if (x.sizes[d] == 1) continue;
    if (c.inner == 1)
      c.inner_stride = x.strides[d];
    else if (x.strides[d] != c.inner_stride * c.inner)
      c.valid = false;
    c.inner *= x.sizes[d];
  }
  return c;
}

bool as_planes(const Collapsed& c) { return c.valid && (c.inner == 1 || c.inner_stride == 1); }

// Rows of channels: needs unit channel stride and one pitch for batch and inner together.
bool as_rows(const Collapsed& c) {
  if (!c.valid || (c.channels > 1 && c.channel_stride != 1)) return false;
  return c.batch == 1 || c.inner == 1 || c.batch_stride == c.inner_stride * c.inner;
}
int64_t row_pitch(const Collapsed& c) { return c.inner > 1 ? c.inner_stride : c.batch_stride; }

bool prefers_rows(const Collapsed& c) { return as_rows(c) && (c.inner == 1 || c.inner_stride != 1); }

struct Problem {
  Collapsed x, y, z;  // z equals y in the forward pass
  bool rows;
  int64_t padded, block;  // pitch of per-channel arrays; channels per task of the CPU row kernels
  int64_t count() const { return x.batch * x.inner; }
  int64_t elements() const { return count() * x.channels; }

  PlaneShape planes() const {
    return {x.batch,          x.channels,     x.inner,          padded,         x.batch_stride,
            x.channel_stride, y.batch_stride, y.channel_stride, z.batch_stride, z.channel_stride};
  }
  RowShape row_shape() const { return {count(), x.channels, padded, row_pitch(x), row_pitch(y), row_pitch(z)}; }
  // Rows as planes with inner = 1, for elementwise kernels.
  PlaneShape elements_shape() const {
    if (!rows) return planes();
    return {count(), x.channels, 1, padded, row_pitch(x), 1, row_pitch(y), 1, row_pitch(z), 1};
  }
};

Problem make_problem(const TensorView& x, const TensorView& y, const TensorView& z) {
  Problem p{collapse(x), collapse(y), collapse(z), false, 0, 4 * lanes_of(x.dtype)};
  p.rows = prefers_rows(p.x) && as_rows(p.y) && as_rows(p.z);
  require(p.rows || (as_planes(p.x) && as_planes(p.y) && as_planes(p.z)),
          "batch_norm: tensors must all be channels first or all channels last");
  p.padded = round_up(p.x.channels, 16);
  return p;
}

// Parts of the batch per channel (planes) or of the rows, so that every compute unit has work.
int64_t count_parts(const Device& device, const Problem& p) {
  const int64_t units = device.capabilities().compute_units;
  if (p.rows) {
    const int64_t blocks = ceil_div(p.x.channels, device.cpu_style() ? p.block : 32);
    const int64_t cached = device.cpu_style() ? 512 : 256;  // rows: a part stays in the cache between its two sweeps
    return std::clamp<int64_t>(p.count() / cached, 1,
                               device.cpu_style() ? int64_t{1} << 14 : std::max<int64_t>(1, 16 * units / blocks));
  }
  const int64_t wanted = ceil_div((device.cpu_style() ? 4 : 8) * units, p.x.channels);
  const int64_t parts = std::min(wanted, std::max<int64_t>(1, p.count() / 4096));
  if (parts <= p.x.batch) return parts;
  return p.x.batch * ceil_div(parts, p.x.batch);
}

DType or_else(const TensorView& a, const TensorView& b, DType otherwise) {
  return a ? a.dtype : (b ? b.dtype : otherwise);
}

// One kernel of this family: dtypes of data, parameters and running statistics.
Kernel& kernel(KernelSite& site, Device& device, DType x, DType w, DType r) {
  return site.get(device, Variant().add(x).add(w).add(r), [&] {
    Defines defines = lane_defines(x).add("PAIRS", x == DType::bfloat16 && has_bfloat16_pairs(device));
    dtype(defines, "W_DTYPE", w);
    dtype(defines, "R_DTYPE", r);
    return defines;
  });
}

Range channel_range(const Device& device, int64_t channels) {
  constexpr int64_t block = params::channel_block;
  return device.cpu_style() ? Range(ceil_div(channels, block)) : Range(round_up(channels, 64));
}
// Of kernels that combine parts: a group to a channel.
Range combining_range(const Device& device, int64_t channels) {
  return device.cpu_style() ? channel_range(device, channels) : Range(static_cast<size_t>(channels) * 64);
}
Range channel_local(const Device& device) { return device.cpu_style() ? Range(1) : Range(64); }

// The elementwise step: y = f(x, coefficients) with the kernels' common leading arguments.
template <class... Arguments>
void elementwise(Queue& queue, const Problem& p, Kernel& k, int64_t flag, const Arguments&... arguments) {
  const Device& device = queue.device();
  const int32_t flag32 = static_cast<int32_t>(flag);
  if (!device.cpu_style()) {
    launch(queue, k, gpu_range(p.elements()), Range(256), arguments..., p.elements_shape(), flag32);
  } else if (p.rows) {
    const int64_t tasks = std::min(p.count(), cpu_tasks(device, p.elements()));
    launch(queue, k, Range(tasks), Range(1), arguments..., p.row_shape(), flag32);
  } else {
    const int64_t tasks = cpu_tasks(device, p.elements()), planes = p.x.batch * p.x.channels;
    const int64_t pieces = std::clamp<int64_t>(tasks / planes, 1, std::max<int64_t>(1, p.x.inner / 256));
    launch(queue, k, Range(pieces, std::min(planes, tasks)), Range(1, 1), arguments..., p.planes(), flag32);
  }
}

KernelSite cpu_planes_forward("norm/batch_norm.cpu.cl", "planes_forward");
KernelSite cpu_planes_statistics("norm/batch_norm.cpu.cl", "planes_statistics"),
    cpu_rows_statistics("norm/batch_norm.cpu.cl", "rows_statistics");
KernelSite cpu_planes_apply("norm/batch_norm.cpu.cl", "planes_apply"),
    cpu_rows_apply("norm/batch_norm.cpu.cl", "rows_apply");
KernelSite gpu_planes_statistics("norm/batch_norm.gpu.cl", "planes_statistics"),
    gpu_rows_statistics("norm/batch_norm.gpu.cl", "rows_statistics");
KernelSite gpu_apply("norm/batch_norm.gpu.cl", "elements_apply");

// A kernel of the steps between the sweeps, of which both styles have their own.
struct Step {
  const char* name;
  KernelSite cpu{"norm/batch_norm_combine.cpu.cl", name}, gpu{"norm/batch_norm_combine.gpu.cl", name};
  KernelSite& of(const Device& device) { return device.cpu_style() ? cpu : gpu; }
};
Step combine_statistics{"combine_statistics"}, running_coefficients{"running_coefficients"};
Step combine_gradients{"combine_gradients"}, running_statistics{"running_statistics"};

KernelSite cpu_planes_backward("norm/batch_norm_backward.cpu.cl", "planes_backward");
KernelSite cpu_planes_sums("norm/batch_norm_backward.cpu.cl", "planes_sums"),
    cpu_rows_sums("norm/batch_norm_backward.cpu.cl", "rows_sums");
KernelSite cpu_planes_gradient("norm/batch_norm_backward.cpu.cl", "planes_gradient"),
    cpu_rows_gradient("norm/batch_norm_backward.cpu.cl", "rows_gradient");
KernelSite gpu_planes_sums("norm/batch_norm.gpu.cl", "planes_sums"),
    gpu_rows_sums("norm/batch_norm.gpu.cl", "rows_sums");
KernelSite gpu_gradient("norm/batch_norm.gpu.cl", "elements_gradient");

// Whether a task takes a whole channel, in one sweep over memory. With few channels, or where they would leave many
// units without one at the end, the batch is split over tasks instead, which takes two.
bool fused(const Device& device, const Problem& p) {
  if (!device.cpu_style() || p.rows) return false;
  const int64_t units = device.capabilities().compute_units, channels = p.x.channels;
  return 4 * channels >= 3 * units * ceil_div(channels, units) || count_parts(device, p) == 1;
}

// Range of the kernels that reduce parts of channels.
void launch_parts_range(const Device& device, const Problem& p, int64_t parts, Range& global, Range& local) {
  const int64_t groups = p.rows ? ceil_div(p.x.channels, device.cpu_style() ? p.block : 32) : p.x.channels;
  global = device.cpu_style() ? Range(groups, parts) : Range(groups * 256, parts);
  local = device.cpu_style() ? Range(1, 1) : Range(256, 1);
}

}  // namespace

bool batch_norm_takes(const TensorView& x) {
  const Collapsed c = collapse(x);
  return as_planes(c) || as_rows(c);
}

void batch_norm_forward(Queue& queue, const BatchNormForward& a) {
  Device& device = queue.device();
  require_floating(device, a.x.dtype, "batch_norm");
  if (a.x.numel() == 0) return;
  const Problem p = make_problem(a.x, a.y, a.y);
  const DType x = a.x.dtype, w = or_else(a.weight, a.bias, x), r = or_else(a.running_mean, a.running_var, w);
  const int32_t relu = a.relu;
  with_acc(x, [&](auto zero) {
    using T = decltype(zero);
    const UpdateRule<T> rule{static_cast<T>(a.momentum), static_cast<T>(a.eps)};
    void* running_mean = a.running_mean.data;
    void* running_var = a.running_var.data;
    if (a.training && fused(device, p)) {
      launch(queue, kernel(cpu_planes_forward, device, x, w, r), Range(p.x.channels), Range(1), a.x.data, a.y.data,
             a.weight.data, a.bias.data, running_mean, running_var, a.save_mean.data, a.save_invstd.data, p.planes(),
             rule, relu);
      return;
    }
    Workspace coefficients(queue, 2 * p.padded * sizeof(T));
    if (a.training) {
      const int64_t parts = count_parts(device, p);
      Workspace partial(queue, 3 * parts * p.padded * sizeof(T));
      Range global, local;
      launch_parts_range(device, p, parts, global, local);
      if (p.rows)
        launch(queue, kernel(device.cpu_style() ? cpu_rows_statistics : gpu_rows_statistics, device, x, w, r), global,
               local, a.x.data, partial.data(), p.row_shape(), static_cast<int32_t>(parts));
      else
        launch(queue, kernel(device.cpu_style() ? cpu_planes_statistics : gpu_planes_statistics, device, x, w, r),
               global, local, a.x.data, partial.data(), p.planes(), static_cast<int32_t>(parts));
      launch(queue, kernel(combine_statistics.of(device), device, x, w, r), combining_range(device, p.x.channels),
             channel_local(device), partial.data(), coefficients.data(), a.weight.data, a.bias.data, running_mean,
             running_var, a.save_mean.data, a.save_invstd.data, rule, p.x.channels, p.padded,
             static_cast<int32_t>(parts));
    } else {
      require(running_mean && running_var, "batch_norm: running statistics are needed outside training");
      launch(queue, kernel(running_coefficients.of(device), device, x, w, r), channel_range(device, p.x.channels),
             channel_local(device), coefficients.data(), a.weight.data, a.bias.data, running_mean, running_var,
             static_cast<void*>(nullptr), static_cast<void*>(nullptr), rule, p.x.channels, p.padded);
    }
    KernelSite& site = !device.cpu_style() ? gpu_apply : (p.rows ? cpu_rows_apply : cpu_planes_apply);
    elementwise(queue, p, kernel(site, device, x, w, r), relu, a.x.data, a.y.data, coefficients.data());
  });
}

void batch_norm_backward(Queue& queue, const BatchNormBackward& a) {
  Device& device = queue.device();
  require_floating(device, a.x.dtype, "batch_norm_backward");
  if (a.x.numel() == 0) return;
  const Problem p = make_problem(a.x, a.grad, a.grad_input ? a.grad_input : a.grad);
  const DType x = a.x.dtype, w = or_else(a.weight, a.grad_weight, or_else(a.grad_bias, {}, x)),
              r = or_else(a.running_mean, a.running_var, w);
  const int32_t train = a.training;
  with_acc(x, [&](auto zero) {
    using T = decltype(zero);
    Workspace constants(queue, a.training ? 0 : 2 * p.padded * sizeof(T));
    void* mean = a.save_mean.data;
    void* invstd = a.save_invstd.data;
    if (!a.training) {
      require(a.running_mean && a.running_var, "batch_norm_backward: running statistics are needed outside training");
      mean = constants.data();
      invstd = static_cast<T*>(mean) + p.padded;
      launch(queue, kernel(running_statistics.of(device), device, x, w, r), channel_range(device, p.x.channels),
             channel_local(device), mean, invstd, a.running_mean.data, a.running_var.data, static_cast<T>(a.eps),
             p.x.channels);
    }
    if (fused(device, p)) {
      launch(queue, kernel(cpu_planes_backward, device, x, w, r), Range(p.x.channels), Range(1), a.x.data, a.grad.data,
             a.grad_input.data, a.weight.data, mean, invstd, a.grad_weight.data, a.grad_bias.data, p.planes(), train);
      return;
    }
    const int64_t parts = count_parts(device, p);
    Workspace partial(queue, 2 * parts * p.padded * sizeof(T)), coefficients(queue, 3 * p.padded * sizeof(T));
    Range global, local;
    launch_parts_range(device, p, parts, global, local);
    if (p.rows)
      launch(queue, kernel(device.cpu_style() ? cpu_rows_sums : gpu_rows_sums, device, x, w, r), global, local,
             a.x.data, a.grad.data, mean, partial.data(), p.row_shape(), static_cast<int32_t>(parts));
    else
      launch(queue, kernel(device.cpu_style() ? cpu_planes_sums : gpu_planes_sums, device, x, w, r), global, local,
             a.x.data, a.grad.data, mean, partial.data(), p.planes(), static_cast<int32_t>(parts));
    launch(queue, kernel(combine_gradients.of(device), device, x, w, r), combining_range(device, p.x.channels),
           channel_local(device), partial.data(), coefficients.data(), a.weight.data, invstd, a.grad_weight.data,
           a.grad_bias.data, static_cast<T>(p.count()), p.x.channels, p.padded, static_cast<int32_t>(parts));
    if (!a.grad_input) return;
    KernelSite& site = !device.cpu_style() ? gpu_gradient : (p.rows ? cpu_rows_gradient : cpu_planes_gradient);
    elementwise(queue, p, kernel(site, device, x, w, r), train, a.x.data, a.grad.data, a.grad_input.data, mean,
                coefficients.data());
  });
}

}  // namespace ocl::ops
