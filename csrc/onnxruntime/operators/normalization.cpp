// Normalisations and softmax.
#include "onnxruntime/operators/common.h"
#include "ops/norm/batch_norm.h"
#include "ops/norm/layer_norm.h"
#include "ops/softmax/softmax.h"

namespace ocl::ort {

namespace {

Kernel batch_norm_kernel(const Node& node, bool relu) {
  need(node.version >= 7 && !node.gives(1) && node.integer("training_mode", 0) == 0, "training");
  need(node.dtype(1) == node.dtype(0) && node.dtype(3) == node.dtype(0), "element types that differ");
  need(node.integer("spatial", 1) == 1, "statistics of single elements");
  const double eps = node.number("epsilon", 1e-5f);
  return [=](Run& run) {
    const TensorView x = run.dense(0);
    ops::BatchNormForward arguments;
    // one inner dimension is what the kernels want
    const int64_t channels = x.dims > 1 ? x.sizes[1] : 1, batch = x.dims > 0 ? x.sizes[0] : 1;
    const int64_t inner = batch * channels == 0 ? 0 : x.numel() / (batch * channels);
    const TensorView y = run.output(0, x.dtype, sizes_of(x));
    if (y.numel() == 0) return;
    arguments.x = reshaped(x, {batch, channels, inner});
    arguments.y = reshaped(y, {batch, channels, inner});
    arguments.weight = run.dense(1), arguments.bias = run.dense(2);
    arguments.running_mean = run.dense(3), arguments.running_var = run.dense(4);
    arguments.eps = eps, arguments.relu = relu;
    ops::batch_norm_forward(run.queue(), arguments);
  };
}

Kernel batch_norm(const Node& node) { return batch_norm_kernel(node, false); }
Kernel batch_norm_relu(const Node& node) { return batch_norm_kernel(node, true); }  // made by fusion.cpp

Kernel layer_norm_kernel(const Node& node, bool rms) {
  need(node.integer("stash_type", 1) == 1 || node.dtype(0) == DType::float64, "a stash_type that is not float32");
  need(node.dtype(1) == node.dtype(0), "element types that differ");
  const int64_t axis = node.integer("axis", -1);
  const double eps = node.number("epsilon", 1e-5f);
  return [=](Run& run) {
    const TensorView x = run.dense(0);
    const int from = axis_of(axis, x.dims);
    Sizes kept = sizes_of(x);
    ops::LayerNormProblem p;
    p.dtype = p.parameter = x.dtype;
    p.rms = rms, p.eps = eps;
    for (int d = 0; d < x.dims; ++d) (d < from ? p.rows : p.n) *= x.sizes[d];
    for (int d = from; d < x.dims; ++d) kept[static_cast<size_t>(d)] = 1;
    const Sizes inner(x.sizes.begin() + from, x.sizes.begin() + x.dims);
    const auto parameter = [&](int input) {
      return run.has(input) ? run.dense(broadcast(run.view(input), inner)).data : nullptr;
    };
    const TensorView y = run.output(0, x.dtype, sizes_of(x));
    const DType statistics = ops::compute_type(x.dtype);
    const TensorView mean = rms ? run.scratch(statistics, kept) : run.output(1, statistics, kept);
    const TensorView rstd = rms ? run.scratch(statistics, kept) : run.output(2, statistics, kept);
    if (y.numel() == 0) return;
    ops::layer_norm_forward(run.queue(), p, x.data, parameter(1), parameter(2), y.data, mean.data, rstd.data);
  };
}

Kernel layer_norm(const Node& node) { return layer_norm_kernel(node, false); }
Kernel rms_norm(const Node& node) { return layer_norm_kernel(node, true); }

// groups == 0: one for each channel.
Kernel group_norm_kernel(const Node& node, int64_t groups) {
  need(node.dtype(1) == node.dtype(0), "element types that differ");
  const double eps = node.number("epsilon", 1e-5f);
  return [=](Run& run) {
    const TensorView x = run.dense(0);
    need(x.dims >= 2, "at least two dimensions");
    ops::GroupNormProblem p;
    p.dtype = p.parameter = x.dtype;
    p.batch = x.sizes[0], p.channels = x.sizes[1], p.eps = eps;
    p.groups = groups ? groups : p.channels;
    for (int d = 2; d < x.dims; ++d) p.inner *= x.sizes[d];
    need(p.channels % p.groups == 0, "the channels do not fall into groups");
    const TensorView y = run.output(0, x.dtype, sizes_of(x));
    if (y.numel() == 0) return;
    const TensorView mean = run.scratch(ops::compute_type(x.dtype), {p.batch, p.groups});
    const TensorView rstd = run.scratch(ops::compute_type(x.dtype), {p.batch, p.groups});
    ops::group_norm_forward(run.queue(), p, x.data, run.dense(1).data, run.dense(2).data, y.data, mean.data, rstd.data);
  };
}

Kernel instance_norm(const Node& node) {
  need(node.version >= 6, "opset 1");
  return group_norm_kernel(node, 0);
}

Kernel group_norm(const Node& node) {
  need(node.integer("stash_type", 1) == 1, "a stash_type that is not float32");
  const int64_t groups = node.integer("num_groups", 0);
  need(groups > 0, "no groups");
  return group_norm_kernel(node, groups);
}

// Opsets before 13 take all dimensions from the axis on as one.
Kernel softmax_kernel(const Node& node, bool log) {
  const bool flat = node.version < 13;
  const int64_t axis = node.integer("axis", flat ? 1 : -1);
  return [=](Run& run) {
    const TensorView x = run.dense(0);
    const int at = axis_of(axis, x.dims);
    const TensorView y = run.output(0, x.dtype, sizes_of(x));
    if (y.numel() == 0) return;
    ops::SoftmaxProblem p = ops::softmax_problem(x, x.dims ? at : 0, x.dtype, log);
    if (flat) p.n *= p.inner, p.inner = 1;
    ops::softmax_forward(run.queue(), p, x.data, y.data);
  };
}

Kernel softmax(const Node& node) { return softmax_kernel(node, false); }
Kernel log_softmax(const Node& node) { return softmax_kernel(node, true); }

constexpr Operator rows[] = {
    {"BatchNormalization", floats, batch_norm},
    {"BatchNormRelu", floats, batch_norm_relu},
    {"LayerNormalization", floats, layer_norm},
    {"RMSNormalization", floats, rms_norm},
    {"InstanceNormalization", floats, instance_norm},
    {"GroupNormalization", floats, group_norm, 21},
    {"Softmax", floats, softmax},
    {"LogSoftmax", floats, log_softmax},
};

}  // namespace

std::span<const Operator> normalization_operators() { return rows; }

}  // namespace ocl::ort
