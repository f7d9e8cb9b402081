#include "torch/aten/elementwise.h"
#include "torch/aten/many_dims.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

namespace ocl::aten {

ops::ElementwiseScalar scalar_of(const at::Scalar& scalar) {
  if (scalar.isComplex()) {
    const auto value = scalar.toComplexDouble();
    return ops::ElementwiseScalar(std::complex<double>(value.real(), value.imag()));
  }
  if (scalar.isFloatingPoint()) return ops::ElementwiseScalar(scalar.toDouble());
  if (scalar.isBoolean()) return ops::ElementwiseScalar(static_cast<int64_t>(scalar.toBool()));
  return ops::ElementwiseScalar(scalar.toLong());
}

void check_convertible(const at::Scalar& value, at::ScalarType type) {
  switch (type) {
#define CONVERT(T, NAME) \
  case at::ScalarType::NAME: (void)value.to<T>(); return;
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(CONVERT)
#undef CONVERT
    default: return;
  }
}

namespace {

ops::ElementwiseScalar cpu_scalar(at::TensorIteratorBase& iterator, int i) {
  runtime::check_memory(iterator.tensor_base(i));
  switch (iterator.dtype(i)) {  // Python's numbers
    case at::kDouble: return ops::ElementwiseScalar(*static_cast<const double*>(iterator.data_ptr(i)));
    case at::kLong: return ops::ElementwiseScalar(*static_cast<const int64_t*>(iterator.data_ptr(i)));
    default: return scalar_of(iterator.tensor(i).item());
  }
}

// Rows that also serve the types that kernels do not compute in: 8-bit floating numbers are converted, others compared
// as bits.
bool serves_every_type(const ops::ElementwiseRow& row) {
  static const auto rows = [] {
    std::vector<const ops::ElementwiseRow*> found;
    for (const char* name : {"copy", "where", "eq", "ne", "abs", "isnan"}) found.push_back(&ops::elementwise_row(name));
    return found;
  }();
  return std::find(rows.begin(), rows.end(), &row) != rows.end();
}

// Copies and selections within a type that kernels do not compute in move its bits, so that NaN keeps them.
bool moves_bits(const ops::ElementwiseRow& row, at::TensorIteratorBase& iterator, at::ScalarType common) {
  static const ops::ElementwiseRow* const copy = &ops::elementwise_row("copy");
  static const ops::ElementwiseRow* const where = &ops::elementwise_row("where");
  if (!only_moved(common) || (&row != copy && &row != where)) return false;
  for (int i = 0; i < iterator.ntensors(); ++i) {
    const bool condition = &row == where && i == iterator.noutputs();
    if (!condition && (iterator.dtype(i) != common || iterator.device(i).is_cpu())) return false;
  }
  return true;
}

ops::DType element_type(const ops::ElementwiseRow& row, at::ScalarType type, bool bits) {
  if (!only_moved(type)) [[likely]]
    return static_cast<ops::DType>(type);
  if (!serves_every_type(row)) unsupported(type);
  return bits || !at::isFloat8Type(type) ? moved_type_of(type) : stored_type_of(type);
}

void fill(ops::ElementwiseCall::Operand& operand, const ops::ElementwiseRow& row, at::TensorIteratorBase& iterator,
          int i, bool bits) {
  const at::ScalarType type = iterator.dtype(i);
  operand.dtype = element_type(row, type, bits);
  if (i >= iterator.noutputs() && iterator.device(i).is_cpu()) {
    operand.is_scalar = true;
    operand.scalar = cpu_scalar(iterator, i);
    return;
  }
  runtime::check_memory(iterator.tensor_base(i));
  operand.data = iterator.data_ptr(i);
  const auto bytes = static_cast<int64_t>(ops::size_of(operand.dtype));
  const auto strides = iterator.strides(i);
  for (int d = 0; d < iterator.ndim(); ++d) operand.strides[d] = strides[d] / bytes;
}

// Up to so many elements, operands of another dtype are converted by a launch of their own: a program for each
// combination of dtypes takes longer to build than these launches will ever take.
constexpr int64_t few = 4096;

// Replaces the operand by a copy of `type` with the same broadcasting. The tensor returned holds its memory.
at::Tensor convert(Queue& queue, ops::ElementwiseCall::Operand& operand, const ops::ElementwiseCall& call,
                   const at::TensorOptions& options) {
  static const ops::ElementwiseRow& row = ops::elementwise_row("copy");
  ops::ElementwiseCall copy;
  copy.dims = call.dims;
  copy.compute = ops::compute_type(operand.dtype);
  copy.inputs[0] = operand;
  copy.output.dtype = dtype_of(c10::typeMetaToScalarType(options.dtype()));
  int64_t count = 1;
  for (int d = 0; d < call.dims; ++d) {
    const bool repeated = operand.strides[d] == 0;
    copy.sizes[d] = repeated ? 1 : call.sizes[d];
    copy.output.strides[d] = repeated ? 0 : count;
    count *= copy.sizes[d];
  }
  at::Tensor memory = at::empty({count}, options);
  copy.output.data = memory.mutable_data_ptr();
  ops::elementwise(queue, row, copy);
  operand = copy.output;
  return memory;
}

}  // namespace

void run(const ops::ElementwiseRow& row, at::TensorIteratorBase& iterator, at::ArrayRef<ops::ElementwiseScalar> scalars,
         std::optional<at::ScalarType> compute, const char* name) {
  const at::ScalarType common = compute ? *compute : iterator.common_dtype();
  ops::ElementwiseCall call;
  const bool bits = moves_bits(row, iterator, common);
  const ops::DType common_type = element_type(row, common, bits);
  call.compute = ops::compute_type(common_type);
  if (!ops::supports(row, call.compute)) not_implemented_for(name ? name : row.name, common);
  if (iterator.numel() == 0) return;
  if (iterator.ndim() > ops::max_dims) [[unlikely]]
    return for_parts_of_few_dims(iterator,
                                 [&](at::TensorIteratorBase& part) { run(row, part, scalars, compute, name); });
  call.dims = iterator.ndim();
  for (int d = 0; d < call.dims; ++d) call.sizes[d] = iterator.shape()[d];
  fill(call.output, row, iterator, 0, bits);
  for (int i = 0; i < row.inputs; ++i) fill(call.inputs[i], row, iterator, i + 1, bits);
  for (const auto& scalar : scalars) call.scalar[call.scalars++] = scalar;
  const c10::Device device = iterator.device(0);
  const c10::DeviceGuard guard(device);
  Queue& queue = runtime::current_queue(device.index());
  std::array<at::Tensor, ops::ElementwiseCall::max_inputs> converted;
  for (int i = 0; i < row.inputs; ++i) {
    auto& operand = call.inputs[i];
    if (operand.is_scalar || operand.dtype == ops::DType::boolean || operand.dtype == common_type || only_moved(common))
      continue;  // booleans may be conditions
    // Single numbers keep their precision beside half types, as on the CPU; integers are rounded to them.
    const bool single = std::all_of(operand.strides.begin(), operand.strides.begin() + call.dims,
                                    [](int64_t stride) { return stride == 0; });
    const bool half = at::isReducedFloatingType(common), rounded = half && !single && ops::size_of(operand.dtype) > 1;
    const at::ScalarType type = half && single ? at::kFloat : common;
    if ((iterator.numel() > few && !rounded) || operand.dtype == dtype_of(type)) continue;
    converted[i] = convert(queue, operand, call, at::TensorOptions(type).device(device));
  }
  ops::elementwise(queue, row, call);
}

}  // namespace ocl::aten
