// Integers with a scale and a zero point. Operators of them are run as conversions around those of floats (lowering.h).
#include "onnxruntime/operators/linear.h"
#include "ops/reduce/reduce.h"

#include <algorithm>

namespace ocl::ort {

namespace {

struct Codes {
  double low = 0, high = 0;
};

Codes codes_of(DType dtype) {
  switch (dtype) {
    case DType::int8: return {-128, 127};
    case DType::uint8: return {0, 255};
    case DType::int16: return {-32768, 32767};
    default: throw InvalidArgument("codes of this element type");
  }
}

// Where the scales of a tensor lie: one, one for each index of an axis, or one for so many neighbours along it.
struct Steps {
  int64_t axis = 1, block = 0;
};

Steps steps_of(const Node& node) {
  const Steps steps{node.integer("axis", 1), node.integer("block_size", 0)};
  if (steps.block == 0) return steps;
  need(steps.block > 0 && node.ranked(0), "blocks of a tensor of unknown sizes");
  const int64_t size = node.inputs[0].sizes[static_cast<size_t>(axis_of(steps.axis, node.rank(0)))];
  need(size >= 0 && size % steps.block == 0, "blocks that the size is no multiple of");
  return steps;
}

// Sizes with the axis split into blocks.
Sizes split(const Sizes& sizes, const Steps& steps) {
  if (steps.block == 0) return sizes;
  Sizes result = sizes;
  const auto at = static_cast<size_t>(axis_of(steps.axis, static_cast<int>(sizes.size())));
  need(sizes[at] % steps.block == 0, "blocks that the size is no multiple of");
  result[at] /= steps.block;
  result.insert(result.begin() + static_cast<int64_t>(at) + 1, steps.block);
  return result;
}

// A scale or zero point seen with the sizes (of split()) of the tensor that it belongs to.
TensorView spread(const TensorView& parameter, const Sizes& sizes, const Steps& steps) {
  if (parameter.numel() == 1) return broadcast(reshaped(parameter, {}), sizes);
  const int rank = static_cast<int>(sizes.size()) - (steps.block != 0);
  const auto at = static_cast<size_t>(axis_of(steps.axis, rank));
  Sizes shape = sizes_of(parameter);
  if (steps.block != 0) {
    need(parameter.dims == rank, "scales of blocks do not fit");
    shape.insert(shape.begin() + static_cast<int64_t>(at) + 1, 1);
  } else if (parameter.dims == 1) {
    shape.assign(static_cast<size_t>(rank), 1);
    shape[at] = parameter.sizes[0];
  }
  return broadcast(reshaped(parameter, shape), sizes);
}

// y = row(x, scale, zero point): inputs 0, 1 and 2, where an absent zero point is 0.
void convert(Run& run, const char* row, const Steps& steps, DType result, const Codes& codes = {}) {
  const Sizes given = run.sizes(0), sizes = split(given, steps);
  const TensorView x = reshaped(run.dense(0), sizes), scale = spread(run.dense(1), sizes, steps);
  TensorView zero;
  if (run.has(2)) {
    zero = spread(run.dense(2), sizes, steps);
  } else {
    zero = run.scratch(DType::float32, {});
    ops::zero(run.queue(), zero);
    zero = broadcast(zero, sizes);
  }
  const TensorView y = reshaped(run.output(0, result, given), sizes);
  if (y.numel() == 0) return;
  ops::elementwise(run.queue(), ops::elementwise_row(row), DType::float32, y, {x, scale, zero},
                   {codes.low, codes.high});
}

Kernel quantize(const Node& node) {
  need(node.outputs.at(0).dtype.has_value(), "an element type that the device does not have");
  need(floats.has(node.dtype(1)) && node.integer("precision", 0) == 0, "a scale of this element type");
  return [steps = steps_of(node), to = *node.outputs[0].dtype, codes = codes_of(*node.outputs[0].dtype)](Run& run) {
    convert(run, "quantize_linear", steps, to, codes);
  };
}

Kernel dequantize(const Node& node) {
  const DType to = node.dtype(1);
  need(floats.has(to), "a scale of this element type");
  need(!node.outputs.at(0).dtype || *node.outputs[0].dtype == to, "a result of another type than the scale's");
  return [steps = steps_of(node), to](Run& run) { convert(run, "dequantize_linear", steps, to); };
}

// QuantizeLinear to the type of the zero point and back; made by fusion.cpp.
Kernel fake_quantize(const Node& node) {
  return [steps = steps_of(node), codes = codes_of(node.dtype(2))](Run& run) {
    convert(run, "fake_quantize", steps, run.dtype(1), codes);
  };
}

// Codes minus their zero point as float32.
Kernel centre(const Node& node) {
  return [steps = steps_of(node)](Run& run) {
    const Sizes sizes = run.sizes(0);
    const TensorView x = run.view(0), y = run.output(0, DType::float32, sizes);
    if (y.numel() == 0) return;
    if (run.has(1))
      ops::elementwise(run.queue(), ops::elementwise_row("sub"), DType::float32, y,
                       {x, spread(run.dense(1), sizes, steps)});
    else
      ops::elementwise(run.queue(), ops::elementwise_row("copy"), DType::float32, y, {x});
  };
}

// Codes of a bias count in steps of the product of two scales.
Kernel scaled_bias(const Node&) {
  return [](Run& run) {
    const Sizes sizes = run.sizes(0);
    const TensorView y = run.output(0, DType::float32, sizes);
    const ops::ElementwiseRow& mul = ops::elementwise_row("mul");
    if (y.numel() == 0) return;
    ops::elementwise(run.queue(), mul, DType::float32, y,
                     {spread(run.dense(1), sizes, {0, 0}), spread(run.dense(2), sizes, {0, 0})});
    ops::elementwise(run.queue(), mul, DType::float32, y, {run.view(0), y});
  };
}

// Whole numbers in float32 whose products are added up in int32: as many at a time as float32 adds up exactly.
Kernel exact_matmul(const Node& node) {
  return [at_once = node.integer("products", 1)](Run& run) {
    const TensorView a = run.view(0), b = run.view(1);
    need(a.dims >= 2 && b.dims >= 2 && a.size(-1) == b.size(-2), "no matrices, or the inner sizes differ");
    const auto leading = [](const TensorView& x) { return Sizes(x.sizes.begin(), x.sizes.begin() + x.dims - 2); };
    Sizes sizes = broadcast_sizes(std::array{leading(a), leading(b)});
    sizes.insert(sizes.end(), {a.size(-2), b.size(-1)});
    const TensorView y = run.output(0, DType::int32, sizes);
    if (y.numel() == 0) return;
    const TensorView part = run.scratch(DType::float32, sizes);
    for (int64_t k = 0, all = a.size(-1); k == 0 || k < all; k += at_once) {
      TensorView left = a, right = b;
      left.sizes[a.dims - 1] = right.sizes[b.dims - 2] = std::min(at_once, all - k);
      left.data = static_cast<float*>(a.data) + k * a.stride(-1);
      right.data = static_cast<float*>(b.data) + k * b.stride(-2);
      multiply(run, left, right, part);
      if (k == 0)
        ops::elementwise(run.queue(), ops::elementwise_row("copy"), DType::int32, y, {part});
      else
        ops::elementwise(run.queue(), ops::elementwise_row("add"), DType::int32, y, {y, part});
    }
  };
}

Kernel dynamic_quantize(const Node&) {
  return [](Run& run) {
    Queue& queue = run.queue();
    const TensorView x = run.view(0);
    need(x.numel() > 0, "the range of no numbers");
    const TensorView low = run.scratch(DType::float32, {}), high = run.scratch(DType::float32, {});
    const auto all = static_cast<ops::DimMask>((uint64_t{1} << x.dims) - 1);
    ops::reduce(queue, ops::Reduction::amin, x, all, low);
    ops::reduce(queue, ops::Reduction::amax, x, all, high);
    const TensorView y = run.output(0, DType::uint8, sizes_of(x)), scale = run.output(1, DType::float32, {}),
                     zero = run.output(2, DType::uint8, {});
    const auto apply = [&](const char* row, const TensorView& to, std::initializer_list<TensorView> inputs) {
      ops::elementwise(queue, ops::elementwise_row(row), DType::float32, to, inputs, {0.0, 255.0});
    };
    ops::elementwise(queue, ops::elementwise_row("dynamic_scale"), DType::float32, scale, {low, high});
    ops::elementwise(queue, ops::elementwise_row("dynamic_zero_point"), DType::float32, zero, {low, scale});
    const Sizes sizes = sizes_of(x);
    apply("quantize_linear", y, {x, broadcast(scale, sizes), broadcast(zero, sizes)});
  };
}

constexpr TypeSet coded{DType::int8, DType::uint8, DType::int16, DType::int32}, single{DType::float32};

constexpr Operator rows[] = {
    {"QuantizeLinear", TypeSet{DType::float32, DType::float16}, quantize, 10},
    {"DequantizeLinear", coded, dequantize, 10},
    {"DynamicQuantizeLinear", single, dynamic_quantize},
    {"FakeQuantize", TypeSet{DType::float32, DType::float16}, fake_quantize},
    {"Centre", coded, centre},
    {"ScaledBias", coded, scaled_bias},
    {"ExactMatMul", single, exact_matmul},
};

}  // namespace

std::span<const Operator> quantized_operators() { return rows; }

}  // namespace ocl::ort
