// Structs and constants that host and kernels share stand once, in the headers of this folder: C that C++ reads too.
// Kernels include them like any file of kernels_cl; on the host they are in namespace ocl::params. Numbers have a
// width, and fields are naturally aligned, with no gap between them or behind the last one: then every compiler lays a
// struct out in the same way. PARAMS_LAYOUT has both compilers confirm it.
#pragma once

#ifdef __cplusplus

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#define PARAMS_BEGIN namespace ocl::params {
#define PARAMS_END }

namespace ocl::params {

// A byte that belongs to no field has no value, so reading it is no constant expression: gaps do not compile.
template <class T>
consteval bool has_no_gaps() {
  unsigned sum = 0;
  for (const unsigned char byte : std::bit_cast<std::array<unsigned char, sizeof(T)>>(T{})) sum += byte;
  return sum == 0;
}

template <class T, size_t bytes>
constexpr bool has_layout =
    sizeof(T) == bytes && std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T> && has_no_gaps<T>();

// Aligned to their size, as in OpenCL C.
static_assert(alignof(int64_t) == 8 && alignof(double) == 8 && alignof(int32_t) == 4 && alignof(float) == 4);

}  // namespace ocl::params

// `type` has so many bytes.
#define PARAMS_LAYOUT(type, bytes) static_assert(has_layout<type, (bytes)>)

// Begins a struct with fields of the real type that a kernel computes in, which it calls `real`; a template here.
#define PARAMS_STRUCT_OF(real, type) \
  template <class real>              \
  struct type
// `reals` fields of that type and `others` bytes.
#define PARAMS_LAYOUT_OF(real, type, reals, others) \
  static_assert(has_layout<type<float>, (reals) * 4 + (others)> && has_layout<type<double>, (reals) * 8 + (others)>)

#else

typedef int int32_t;
typedef long int64_t;
typedef uint uint32_t;
typedef ulong uint64_t;

#define PARAMS_BEGIN
#define PARAMS_END
#define PARAMS_LAYOUT(type, bytes) typedef char type##_layout[sizeof(type) == (bytes) ? 1 : -1]
#define PARAMS_STRUCT_OF(real, type) \
  typedef struct type type;          \
  struct type
#define PARAMS_LAYOUT_OF(real, type, reals, others) PARAMS_LAYOUT(type, (reals) * sizeof(real) + (others))

#endif
