// The elementwise engine: an operator is one row of a table (elementwise/table.cpp), the engine supplies dtypes,
// strides, broadcasting and vectors. Adding an operator adds a row.
#pragma once

#include "ops/core/context.h"

#include <complex>

namespace ocl::ops {

// OpenCL C expressions over
//   a, b, c, d   the inputs, converted to the compute type
//   s0, s1, s2   scalar arguments in the compute type
//   T, S, I      compute type as a vector, as a scalar, and the signed integer vector of the same width
// valid for vectors and scalars alike (ternary selects; comparisons are -1 or 0 on vectors). Helpers:
// common/vector_math.clh. A null text means that the operator has no kernel for that class of types; integer == nullptr
// uses `real`.
struct ElementwiseRow {
  // What csrc/torch/aten/table_rows.cpp registers for a row that is one operator of PyTorch and nothing else.
  enum class Operator : uint8_t {
    none,           // registered by hand, or not an operator of PyTorch
    floating,       // integers become PyTorch's default floating type
    wide_floating,  // likewise, and PyTorch has no half types for it on any device
    same,           // the result has the inputs' common type
  };

  const char* name;
  int inputs;
  const char* real;               // float32 and float64 (half types compute in float32)
  const char* integer = nullptr;  // int8..int64, uint8, boolean; "-" for none
  const char* complex = nullptr;  // float2 / double2
  const char* functions =
      nullptr;  // FUNCTIONS_<this> makes elementwise/elementwise.clh include the file that has the row's functions
  bool vectors = false;  // what it is made of serves vectors too: `functions` take T, and `complex` needs
                         // common/complex_arithmetic.clh only
  Operator kind = Operator::none;
  const char* aten = nullptr;  // the operator's name in PyTorch (with kind != none)
};

// Errors: InvalidArgument for a name that is not in the table.
const ElementwiseRow& elementwise_row(const char* name);
std::span<const ElementwiseRow> elementwise_table();
// Whether the row has an expression for this compute type.
bool supports(const ElementwiseRow& row, DType compute);

// A scalar argument with its type's full precision.
struct ElementwiseScalar {
  std::complex<double> floating{};
  int64_t integer = 0;  // used when the compute type is integral
  ElementwiseScalar() = default;
  ElementwiseScalar(double v) : floating(v), integer(static_cast<int64_t>(v)) {}
  ElementwiseScalar(int64_t v) : floating(static_cast<double>(v)), integer(v) {}
  ElementwiseScalar(std::complex<double> v) : floating(v), integer(static_cast<int64_t>(v.real())) {}
};

struct ElementwiseCall {
  static constexpr int max_inputs = 4, max_scalars = 3;
  struct Operand {
    void* data = nullptr;  // ignored when is_scalar
    DType dtype = DType::float32;
    std::array<int64_t, max_dims> strides{};  // in elements, dimension 0 varies fastest
    bool is_scalar = false;
    ElementwiseScalar scalar;
  };
  DType compute = DType::float32;
  int dims = 0;
  std::array<int64_t, max_dims> sizes{};  // dimension 0 varies fastest
  Operand output;
  std::array<Operand, max_inputs> inputs;
  int scalars = 0;
  std::array<ElementwiseScalar, max_scalars> scalar{};
};

// Orders the dimensions by stride, the fastest first, and merges those that are one in every operand. Pure: no device
// needed.
void coalesce(ElementwiseCall& call, int inputs);

// output = row(inputs, scalars), element by element. Operands may have any strides (0 broadcasts); an input may be
// exactly the output. Dimensions are reordered and coalesced here. Errors: InvalidArgument when the row has no
// expression for the compute type.
void elementwise(Queue& queue, const ElementwiseRow& row, ElementwiseCall call);

// The same from views: inputs are broadcast to the output's sizes by the caller (stride 0).
void elementwise(Queue& queue, const ElementwiseRow& row, DType compute, const TensorView& output,
                 std::initializer_list<TensorView> inputs, std::initializer_list<ElementwiseScalar> scalars = {});

// to = from, elements of one type; and all of `to` zero.
void copy(Queue& queue, const TensorView& to, const TensorView& from);
void zero(Queue& queue, const TensorView& to);

}  // namespace ocl::ops
