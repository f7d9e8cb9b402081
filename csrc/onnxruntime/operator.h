// The table of ONNX's operators: one row each. A row checks a node and makes what runs it.
#pragma once

#include "onnxruntime/node.h"
#include "onnxruntime/run.h"

#include <functional>
#include <initializer_list>

namespace ocl::ort {

// Runs a node: reads the inputs of the Run, sets all outputs that the node gives.
using Kernel = std::function<void(Run&)>;

// A set of element types.
class TypeSet {
 public:
  constexpr TypeSet(std::initializer_list<DType> types) {
    for (const DType type : types) bits_ |= uint32_t{1} << static_cast<int>(type);
  }
  constexpr bool has(DType type) const {
    return static_cast<unsigned>(type) < 32 && (bits_ >> static_cast<int>(type) & 1);
  }
  constexpr TypeSet operator|(TypeSet other) const {
    TypeSet both = *this;
    both.bits_ |= other.bits_;
    return both;
  }

 private:
  uint32_t bits_ = 0;
};

inline constexpr TypeSet floats{DType::float32, DType::float16, DType::float64};
inline constexpr TypeSet whole{DType::int64, DType::int32, DType::int16, DType::int8, DType::uint8};
inline constexpr TypeSet booleans{DType::boolean};
inline constexpr TypeSet numbers = floats | whole;
inline constexpr TypeSet everything = numbers | booleans;

struct Operator {
  const char* name;
  TypeSet types;  // of the first input, or of the first output where there is none
  // Errors: InvalidArgument with the reason when the node is one that this row does not run.
  Kernel (*make)(const Node& node);
  int first = 1, last = 28;  // opsets that a definition may be from
};

// Rows by family.
std::span<const Operator> unary_operators();
std::span<const Operator> binary_operators();
std::span<const Operator> linear_operators();
std::span<const Operator> attention_operators();
std::span<const Operator> quantized_operators();
std::span<const Operator> recurrent_operators();
std::span<const Operator> detection_operators();
std::span<const Operator> convolution_operators();
std::span<const Operator> pooling_operators();
std::span<const Operator> normalization_operators();
std::span<const Operator> shape_operators();
std::span<const Operator> slice_operators();
std::span<const Operator> index_operators();
std::span<const Operator> sequence_operators();
std::span<const Operator> reduction_operators();
std::span<const Operator> resize_operators();

// All rows.
std::vector<const Operator*> all_operators();

// What runs the node on this device. Errors: InvalidArgument or Unsupported with the reason why none does.
Kernel make_kernel(const Node& node, const Device& device);

// For rows: `condition` or an InvalidArgument with this reason.
void need(bool condition, const char* reason);
// An axis counted from the front. Errors: InvalidArgument when it is out of range.
int axis_of(int64_t axis, int rank);

}  // namespace ocl::ort
