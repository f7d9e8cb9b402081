#include "ops/elementwise/elementwise.h"

#include "ops/elementwise/permute.h"
#include "ops/elementwise/sequence.h"
#include "params/elementwise.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <stdexcept>

namespace ocl::ops {

namespace {

using params::strided_dims;

bool is_flat(const ElementwiseCall& call, int inputs) {
  if (call.dims != 1 || (call.output.strides[0] != 1 && call.sizes[0] != 1)) return false;
  for (int i = 0; i < inputs; ++i) {
    const auto& operand = call.inputs[i];
    if (!operand.is_scalar && operand.strides[0] != 1 && operand.strides[0] != 0) return false;
  }
  return true;
}

// The bytes of a scalar in the compute type, as a kernel argument.
struct ScalarBytes {
  alignas(16) unsigned char bytes[16];
  size_t size;
};

ScalarBytes encode(const ElementwiseScalar& scalar, DType compute) {
  ScalarBytes result{};
  auto put = [&](auto value) {
    result.size = sizeof value;
    std::memcpy(result.bytes, &value, sizeof value);
  };
  switch (compute) {
    case DType::float32: put(static_cast<float>(scalar.floating.real())); break;
    case DType::float64: put(scalar.floating.real()); break;
    case DType::complex64: put(std::complex<float>(scalar.floating)); break;
    case DType::complex128: put(scalar.floating); break;
    case DType::int8: put(static_cast<int8_t>(scalar.integer)); break;
    case DType::int16:
    case DType::uint16: put(static_cast<int16_t>(scalar.integer)); break;
    case DType::int32:
    case DType::uint32: put(static_cast<int32_t>(scalar.integer)); break;
    case DType::uint8: put(static_cast<uint8_t>(scalar.integer)); break;
    case DType::boolean: put(static_cast<uint8_t>(scalar.integer != 0)); break;
    default: put(scalar.integer);
  }
  return result;
}

const char* expression(const ElementwiseRow& row, DType compute) {
  if (is_complex(compute)) return row.complex;
  if (is_integral(compute) && row.integer) return std::strcmp(row.integer, "-") == 0 ? nullptr : row.integer;
  return row.real;
}

// The kernel's first parameters: the output y, of every input a tensor x0 or a number x0_value, then the scalars.
std::string parameters_of(const ElementwiseRow& row, const ElementwiseCall& call) {
  std::string list = "global STORAGE(OUT_DTYPE)* y";
  for (int i = 0; i < row.inputs; ++i) {
    const std::string k = std::to_string(i);
    list += call.inputs[i].is_scalar ? ", S x" + k + "_value" : ", global const STORAGE(IN" + k + "_DTYPE)* x" + k;
  }
  for (int i = 0; i < call.scalars; ++i) list += ", S s" + std::to_string(i) + "_value";
  return list;
}

Defines make_defines(const ElementwiseRow& row, const ElementwiseCall& call, int width) {
  static constexpr const char* in_names[] = {"IN0_DTYPE", "IN1_DTYPE", "IN2_DTYPE", "IN3_DTYPE"};
  static constexpr const char* scalar_names[] = {"IN0_SCALAR", "IN1_SCALAR", "IN2_SCALAR", "IN3_SCALAR"};
  Defines defines;
  dtype(defines, "COMPUTE", call.compute);
  dtype(defines, "OUT_DTYPE", call.output.dtype);
  defines.add("INPUTS", row.inputs).add("SCALARS", call.scalars).add("W", width);
  for (int i = 0; i < row.inputs; ++i) {
    dtype(defines, in_names[i], call.inputs[i].is_scalar ? call.compute : call.inputs[i].dtype);
    defines.add(scalar_names[i], call.inputs[i].is_scalar);
  }
  const auto any_float8 = [&] {
    bool any = is_float8(call.output.dtype);
    for (int i = 0; i < row.inputs; ++i) any = any || (!call.inputs[i].is_scalar && is_float8(call.inputs[i].dtype));
    return any;
  };
  if (any_float8()) defines.add("FLOAT8", 1).add("FLOAT8_SATURATES", float8_saturates);
  defines.add("PARAMETERS", parameters_of(row, call));
  if (row.functions) defines.add((std::string("FUNCTIONS_") + row.functions).c_str(), 1);
  return defines.add("EXPRESSION", std::string("(") + expression(row, call.compute) + ")");
}

Variant variant_of(const ElementwiseRow& row, const ElementwiseCall& call) {
  Variant variant;
  variant.add(call.compute).add(call.output.dtype).add(static_cast<uint64_t>(call.scalars), 2);
  for (int i = 0; i < row.inputs; ++i) variant.add(call.inputs[i].dtype).add(call.inputs[i].is_scalar, 1);
  return variant;
}

template <class Condition>
bool every_tensor(const ElementwiseRow& row, const ElementwiseCall& call, Condition condition) {
  bool every = condition(call.output.dtype);
  for (int i = 0; i < row.inputs; ++i) every = every && (call.inputs[i].is_scalar || condition(call.inputs[i].dtype));
  return every;
}

// Elements of a vector. One at a time, unless the row says more: functions with loops that depend on the value, of
// which vectors would be 16 copies, and complex numbers, for whose vectors of pairs the types must fit as well.
int vector_width(const ElementwiseRow& row, const ElementwiseCall& call, bool cpu) {
  if (row.functions) return cpu && row.vectors ? 16 : 1;
  if (is_complex(call.compute)) {
    const DType part = real_of(call.compute);
    const bool vectors = cpu && row.vectors &&
                         every_tensor(row, call, [&](DType dtype) { return dtype == call.compute || dtype == part; });
    return !vectors ? 1 : call.compute == DType::complex64 ? 8 : 4;
  }
  if (!every_tensor(row, call, [](DType dtype) { return !is_complex(dtype); })) return 1;
  return cpu ? 16 : 4;
}

struct RowSites {
  KernelSite flat{"elementwise/flat.cl", "elementwise_flat"};
  KernelSite strided{"elementwise/strided.cl", "elementwise_strided"};
};

RowSites& sites_of(const ElementwiseRow& row) {
  static auto* sites = new std::deque<RowSites>(elementwise_table().size());
  return (*sites)[static_cast<size_t>(&row - elementwise_table().data())];
}

void set_operand(Arguments& arguments, const ElementwiseCall::Operand& operand, DType compute) {
  if (operand.is_scalar) {
    const ScalarBytes scalar = encode(operand.scalar, compute);
    arguments.add_value(scalar.bytes, scalar.size);
  } else {
    arguments.add(static_cast<const void*>(operand.data));
  }
}

void set_common(Arguments& arguments, const ElementwiseRow& row, const ElementwiseCall& call) {
  set_operand(arguments, call.output, call.compute);
  for (int i = 0; i < row.inputs; ++i) set_operand(arguments, call.inputs[i], call.compute);
  for (int i = 0; i < call.scalars; ++i) {
    const ScalarBytes scalar = encode(call.scalar[i], call.compute);
    arguments.add_value(scalar.bytes, scalar.size);
  }
}

void launch_flat(Queue& queue, const ElementwiseRow& row, const ElementwiseCall& call) {
  Device& device = queue.device();
  const int width = vector_width(row, call, device.cpu_style());
  Kernel& kernel =
      sites_of(row).flat.get(device, variant_of(row, call), [&] { return make_defines(row, call, width); });
  const int64_t n = call.sizes[0];
  int32_t steps = 0;  // bit i: input i advances
  for (int i = 0; i < row.inputs; ++i)
    if (!call.inputs[i].is_scalar && call.inputs[i].strides[0] == 1) steps |= 1 << i;
  Arguments arguments(kernel);
  set_common(arguments, row, call);
  arguments.add(n);
  arguments.add(steps);
  if (device.cpu_style()) {
    const int64_t tasks = cpu_tasks(device, n);
    arguments.add(round_up(ceil_div(n, tasks), 64));
    enqueue(queue, arguments, Range(static_cast<size_t>(tasks)), Range(1), ElementwiseStep(queue, row, call).fusion());
  } else {
    arguments.add(int64_t{0});
    const int64_t groups = std::min<int64_t>(ceil_div(n, 256 * width), 65536);
    enqueue(queue, arguments, Range(static_cast<size_t>(groups * 256)), Range(256));
  }
}

void launch_strided(Queue& queue, const ElementwiseRow& row, const ElementwiseCall& call) {
  Device& device = queue.device();
  // On GPUs vectors suit rows that are made of them, or that are much longer.
  const bool vectors = device.cpu_style() || call.sizes[0] % 4 == 0 || call.sizes[0] >= 16;
  const int width = vectors ? vector_width(row, call, device.cpu_style()) : 1;
  params::StridedGeometry geometry;
  int64_t rows = 1;
  for (int d = 0; d < strided_dims; ++d) {
    geometry.sizes[d] = d < call.dims ? call.sizes[d] : 1;
    if (d > 0) rows *= geometry.sizes[d];
    for (int k = 0; k < 5; ++k) {
      const auto* operand = k == 0 ? &call.output : (k <= row.inputs ? &call.inputs[k - 1] : nullptr);
      geometry.strides[k][d] = operand && !operand->is_scalar && d < call.dims ? operand->strides[d] : 0;
    }
  }
  const int64_t items = rows * ceil_div(call.sizes[0], width);
  const bool wide = !device.cpu_style() && items >= INT32_MAX;
  Kernel& kernel = sites_of(row).strided.get(device, variant_of(row, call).add(vectors, 1).add(wide, 1), [&] {
    Defines defines = make_defines(row, call, width);
    return defines.add("WIDE", wide);
  });
  Arguments arguments(kernel);
  set_common(arguments, row, call);
  arguments.add(geometry);
  if (device.cpu_style()) {
    // Tasks are shares of the rows, or of a single long row.
    const int64_t tasks = cpu_tasks(device, rows * call.sizes[0], 8192);
    const bool by_row = rows >= tasks;
    arguments.add(by_row ? ceil_div(rows, tasks) : rows);
    arguments.add(by_row ? call.sizes[0] : round_up(ceil_div(call.sizes[0], tasks), 64));
    arguments.add(rows);
    arguments.add(call.dims - 1);
    enqueue(queue, arguments,
            by_row ? Range(static_cast<size_t>(ceil_div(rows, ceil_div(rows, tasks))), 1)
                   : Range(1, static_cast<size_t>(tasks)),
            Range(1, 1));
  } else {
    arguments.add(int64_t{0});
    arguments.add(int64_t{0});
    arguments.add(rows);
    arguments.add(call.dims - 1);
    const int64_t groups = std::min<int64_t>(ceil_div(items, 256), 1 << 20);
    enqueue(queue, arguments, Range(static_cast<size_t>(groups * 256), 1), Range(256, 1));
  }
}

// A copy of bits between two memory orders has kernels of its own. Returns false, having done nothing, for anything
// else.
bool launch_permuted(Queue& queue, const ElementwiseRow& row, const ElementwiseCall& call) {
  static const ElementwiseRow* copy = &elementwise_row("copy");
  const auto& input = call.inputs[0];
  if (&row != copy || input.is_scalar || input.dtype != call.output.dtype) return false;
  if (call.compute != input.dtype && !is_storage_only(input.dtype))
    return false;  // which pass through the wider type unchanged
  std::array<PermuteDimension, strided_dims> dimensions;
  for (int d = 0; d < call.dims; ++d) dimensions[d] = {call.sizes[d], input.strides[d], call.output.strides[d]};
  return permute(queue, size_of(input.dtype), input.data, call.output.data,
                 std::span(dimensions.data(), static_cast<size_t>(call.dims)));
}

// More dimensions than the kernels know: one launch per index of the slowest one.
void launch_sliced(Queue& queue, const ElementwiseRow& row, ElementwiseCall call) {
  if (call.dims <= strided_dims) {
    if (!launch_permuted(queue, row, call)) launch_strided(queue, row, call);
    return;
  }
  const int d = --call.dims;
  for (int64_t i = 0; i < call.sizes[d]; ++i) {
    ElementwiseCall slice = call;
    auto move = [&](ElementwiseCall::Operand& operand) {
      if (!operand.is_scalar)
        operand.data =
            static_cast<char*>(operand.data) + i * operand.strides[d] * static_cast<int64_t>(size_of(operand.dtype));
    };
    move(slice.output);
    for (int k = 0; k < row.inputs; ++k) move(slice.inputs[k]);
    launch_sliced(queue, row, slice);
  }
}

}  // namespace

void coalesce(ElementwiseCall& call, int inputs) {
  std::array<ElementwiseCall::Operand*, 5> operands{&call.output};
  for (int i = 0; i < inputs; ++i) operands[i + 1] = &call.inputs[i];
  const int n = inputs + 1;
  auto move = [&](int from, int to) {
    call.sizes[to] = call.sizes[from];
    for (int k = 0; k < n; ++k) operands[k]->strides[to] = operands[k]->strides[from];
  };
  int dims = 0;
  for (int d = 0; d < call.dims; ++d)
    if (call.sizes[d] != 1) move(d, dims++);
  // Fastest dimension first, by the output's strides, then the inputs'.
  auto before = [&](int x, int y) {
    for (int k = 0; k < n; ++k) {
      const int64_t a = std::abs(operands[k]->strides[x]), b = std::abs(operands[k]->strides[y]);
      if (operands[k]->is_scalar || a == b || a == 0 || b == 0) continue;
      return a < b;
    }
    return false;
  };
  auto swap = [&](int x, int y) {
    std::swap(call.sizes[x], call.sizes[y]);
    for (int k = 0; k < n; ++k) std::swap(operands[k]->strides[x], operands[k]->strides[y]);
  };
  for (int i = 1; i < dims; ++i)
    for (int j = i; j > 0 && before(j, j - 1); --j) swap(j, j - 1);
  int last = 0;
  for (int d = 1; d < dims; ++d) {
    bool joins = true;
    for (int k = 0; k < n && joins; ++k)
      joins = operands[k]->is_scalar || operands[k]->strides[d] == operands[k]->strides[last] * call.sizes[last];
    if (joins)
      call.sizes[last] *= call.sizes[d];
    else
      move(d, ++last);
  }
  call.dims = dims == 0 ? 0 : last + 1;
  if (call.dims == 0) {
    call.dims = 1;
    call.sizes[0] = 1;
    for (int k = 0; k < n; ++k) operands[k]->strides[0] = 0;
    call.output.strides[0] = 1;
  }
}

bool supports(const ElementwiseRow& row, DType compute) { return expression(row, compute) != nullptr; }

void elementwise(Queue& queue, const ElementwiseRow& row, ElementwiseCall call) {
  for (int d = 0; d < call.dims; ++d)
    if (call.sizes[d] == 0) return;
  if (!supports(row, call.compute))
    throw InvalidArgument(std::string(row.name) + " has no kernel for " + info(call.compute).aten);
  require_dtype(queue.device(), call.compute, row.name);
  require_dtype(queue.device(), call.output.dtype, row.name);
  for (int i = 0; i < row.inputs; ++i)
    if (!call.inputs[i].is_scalar) require_dtype(queue.device(), call.inputs[i].dtype, row.name);
  coalesce(call, row.inputs);
  if (is_flat(call, row.inputs))
    launch_flat(queue, row, call);
  else
    launch_sliced(queue, row, call);
}

void elementwise(Queue& queue, const ElementwiseRow& row, DType compute, const TensorView& output,
                 std::initializer_list<TensorView> inputs, std::initializer_list<ElementwiseScalar> scalars) {
  ElementwiseCall call;
  call.compute = compute;
  call.dims = output.dims;
  auto fill = [&](ElementwiseCall::Operand& operand, const TensorView& view) {
    operand.data = view.data;
    operand.dtype = view.dtype;
    for (int d = 0; d < output.dims; ++d) operand.strides[d] = view.strides[output.dims - 1 - d];
  };
  for (int d = 0; d < output.dims; ++d) call.sizes[d] = output.sizes[output.dims - 1 - d];
  fill(call.output, output);
  int i = 0;
  for (const TensorView& input : inputs) fill(call.inputs[i++], input);
  for (const ElementwiseScalar& scalar : scalars) call.scalar[call.scalars++] = scalar;
  elementwise(queue, row, call);
}

void copy(Queue& queue, const TensorView& to, const TensorView& from) {
  elementwise(queue, elementwise_row("copy"), compute_type(to.dtype), to, {from});
}

void zero(Queue& queue, const TensorView& to) {
  elementwise(queue, elementwise_row("fill"), compute_type(to.dtype), to, {}, {0.0});
}

}  // namespace ocl::ops
