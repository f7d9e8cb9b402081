// Element types. The numbers are c10::ScalarType's, so that the ATen layer converts by a cast.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ocl::ops {

enum class DType : int8_t {
  uint8 = 0,
  int8 = 1,
  int16 = 2,
  int32 = 3,
  int64 = 4,
  float16 = 5,
  float32 = 6,
  float64 = 7,
  complex32 = 8,  // storage only, as the half types: kernels compute in complex64
  complex64 = 9,
  complex128 = 10,
  boolean = 11,
  bfloat16 = 15,
  float8_e5m2 = 23,  // the 8-bit floating types are storage only and are copied and compared, see is_float8
  float8_e4m3fn = 24,
  float8_e5m2fnuz = 25,
  float8_e4m3fnuz = 26,
  uint16 = 27,
  uint32 = 28,
  uint64 = 29,
  float8_e8m0fnu = 30,  // c10's number is 44, one that no kernel variant has the bits for
};

struct DTypeInfo {
  DType dtype;
  const char* name;  // suffix of the kernels' type macros (common/types.clh)
  const char* aten;  // PyTorch's name, for errors: "Float", "BFloat16"
  uint8_t bytes;
  bool floating, complex, is_signed;
};

constexpr bool is_supported(DType dtype) {
  const auto number = static_cast<unsigned>(static_cast<uint8_t>(dtype));
  return number <= 11 || number == 15 || (number >= 27 && number <= 29);
}

// Types that no operator computes in. Elementwise kernels read and write them.
constexpr bool is_float8(DType dtype) {
  const auto number = static_cast<unsigned>(static_cast<uint8_t>(dtype));
  return (number >= 23 && number <= 26) || dtype == DType::float8_e8m0fnu;
}

// Whether a number above the largest one of float8_e4m3fn becomes that one, or NaN. PyTorch's versions differ: the
// library that sits on PyTorch says it before the first kernel is built.
extern bool float8_saturates;

// Errors: InvalidArgument for a type that kernels do not have.
const DTypeInfo& info(DType dtype);

inline size_t size_of(DType dtype) { return info(dtype).bytes; }
inline const char* name_of(DType dtype) { return info(dtype).name; }
inline bool is_floating(DType dtype) { return info(dtype).floating; }
inline bool is_complex(DType dtype) { return info(dtype).complex; }
inline bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
inline bool is_storage_only(DType dtype) { return is_half(dtype) || dtype == DType::complex32 || is_float8(dtype); }
inline bool is_integral(DType dtype) { return !is_floating(dtype) && !is_complex(dtype); }  // boolean counts
// Type of the parts of a complex type.
inline DType real_of(DType dtype) {
  return dtype == DType::complex128 ? DType::float64 : dtype == DType::complex64 ? DType::float32 : DType::float16;
}

// Type in which kernels compute on `dtype`: float32 for the half and the 8-bit types, complex64 for complex32,
// otherwise the type itself.
inline DType compute_type(DType dtype) {
  return is_half(dtype) || is_float8(dtype) ? DType::float32 : dtype == DType::complex32 ? DType::complex64 : dtype;
}
// Type of sums over `dtype`: the compute type for floating and complex types (pairwise or blocked), int64 for integers
// and booleans.
inline DType accumulate_type(DType dtype) { return is_integral(dtype) ? DType::int64 : compute_type(dtype); }

}  // namespace ocl::ops
