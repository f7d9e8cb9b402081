#include "ops/linalg/linalg.h"
#include "ops/core/type_error.h"
#include "params/linalg.h"

#include <stdexcept>

namespace ocl::ops {

namespace {

// The kernels' argument.
params::Matrices passed(const Matrices& m) {
  return {m.batch, m.rows, m.columns, m.batch_stride, m.row_stride, m.column_stride};
}

// Of the kernels with vectors, which take matrices of `block` rows or columns at most (BLOCK in
// kernels_cl/linalg/linalg.cl).
constexpr int64_t block = 64;
int vector_lanes(DType type) { return type == DType::float32 ? 16 : 8; }
bool in_block(const Device& device, int64_t edge) { return device.cpu_style() && edge <= block; }

Kernel& kernel(KernelSite& site, Device& device, DType type) {
  if (type != DType::float32 && type != DType::float64) not_implemented("linalg", type);
  require_dtype(device, type, "linalg");
  return site.get(device, Variant().add(type), [&] {
    Defines defines;
    dtype(defines, "DTYPE", type);
    return defines.add("LANES", vector_lanes(type));
  });
}

bool empty(const Matrices& m) { return m.batch == 0 || m.rows == 0 || m.columns == 0; }

// One work-group per matrix.
int64_t lanes(const Device& device) { return device.cpu_style() ? 1 : 64; }
Range groups(const Device& device, int64_t batch) { return Range(static_cast<size_t>(batch * lanes(device))); }
Range group(const Device& device) { return Range(static_cast<size_t>(lanes(device))); }
LocalMemory per_lane(const Device& device, size_t bytes) { return {static_cast<size_t>(lanes(device)) * bytes}; }

}  // namespace

void cholesky(Queue& queue, const Matrices& a, int32_t* info, int64_t first) {
  static KernelSite site("linalg/linalg.cl", "cholesky"), block_site("linalg/linalg.cl", "cholesky_block");
  if (empty(a)) return;
  Device& device = queue.device();
  if (in_block(device, a.columns)) {
    launch(queue, kernel(block_site, device, a.dtype), Range(static_cast<size_t>(a.batch)), Range(1), a.data, passed(a),
           info, static_cast<int32_t>(first));
    return;
  }
  launch(queue, kernel(site, device, a.dtype), groups(device, a.batch), group(device), a.data, passed(a), info,
         static_cast<int32_t>(first));
}

void lu(Queue& queue, const Matrices& a, int32_t* pivots, int64_t pivot_stride, int32_t* info, int64_t first,
        bool search) {
  static KernelSite site("linalg/linalg.cl", "lu_panel");
  if (empty(a)) return;
  Device& device = queue.device();
  launch(queue, kernel(site, device, a.dtype), groups(device, a.batch), group(device), a.data, passed(a), pivots,
         pivot_stride, info, static_cast<int32_t>(first), static_cast<int32_t>(search),
         per_lane(device, size_of(a.dtype)), per_lane(device, sizeof(int64_t)));
}

void swap_rows(Queue& queue, const Matrices& a, const int32_t* pivots, int64_t pivot_stride, int64_t first,
               int64_t last, bool backwards) {
  static KernelSite site("linalg/linalg.cl", "swap_rows");
  if (empty(a)) return;
  launch(queue, kernel(site, queue.device(), a.dtype), Range(static_cast<size_t>(a.batch * a.columns)), Range(), a.data,
         passed(a), pivots, pivot_stride, first, last, static_cast<int32_t>(backwards));
}

void solve_triangular(Queue& queue, const Matrices& t, const Matrices& b, bool upper, bool unit) {
  static KernelSite site("linalg/linalg.cl", "solve_triangular"),
      block_site("linalg/linalg.cl", "solve_triangular_block");
  if (empty(b)) return;
  Device& device = queue.device();
  if (in_block(device, b.rows)) {
    const int64_t tasks = b.batch * ceil_div(b.columns, vector_lanes(b.dtype));
    launch(queue, kernel(block_site, device, b.dtype), Range(static_cast<size_t>(tasks)), Range(1), t.data, passed(t),
           b.data, passed(b), static_cast<int32_t>(upper), static_cast<int32_t>(unit));
    return;
  }
  launch(queue, kernel(site, device, b.dtype), Range(static_cast<size_t>(b.batch * b.columns)), Range(), t.data,
         passed(t), b.data, passed(b), static_cast<int32_t>(upper), static_cast<int32_t>(unit));
}

void unpack_pivots(Queue& queue, const int32_t* pivots, int64_t* permutation, int64_t batch, int64_t steps,
                   int64_t rows) {
  static KernelSite site("linalg/linalg.cl", "unpack_pivots");
  launch(queue, kernel(site, queue.device(), DType::float32), Range(static_cast<size_t>(batch)), Range(), pivots,
         permutation, batch, steps, rows);
}

}  // namespace ocl::ops
