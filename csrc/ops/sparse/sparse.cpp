#include "ops/sparse/sparse.h"

#include "ops/core/lanes.h"

namespace ocl::ops {

void spmm(Queue& queue, const TensorView& rows, const TensorView& columns, const TensorView& values,
          const TensorView& x, const TensorView& y, double alpha, double beta) {
  static KernelSite site("sparse/spmm.cl", "spmm");
  const bool wide = rows.dtype == DType::int64;
  require(is_floating(values.dtype) && !is_float8(values.dtype) && x.dtype == values.dtype && y.dtype == values.dtype,
          "spmm: expected one dtype of float32, float64, float16 and bfloat16");
  require((wide || rows.dtype == DType::int32) && columns.dtype == rows.dtype,
          "spmm: expected indices of int32 or int64");
  const int64_t m = y.sizes[0], n = y.sizes[1], nnz = values.sizes[0];
  if (m == 0 || n == 0) return;
  Device& device = queue.device();
  require_dtype(device, values.dtype, "spmm");
  const int width = !device.cpu_style() || n == 1 ? 1 : n <= 4 ? 4 : lanes_of(values.dtype);
  const DType sums = compute_type(values.dtype);
  Kernel& kernel = site.get(device, Variant().add(values.dtype).add(wide, 1).add(static_cast<uint64_t>(width), 5), [&] {
    Defines defines;
    dtype(defines, "X", values.dtype);
    dtype(defines, "ACC", sums);
    return defines.add("INDEX", wide ? "long" : "int").add("W", width);
  });
  const int64_t groups = ceil_div(n, width);
  const int64_t tasks = device.cpu_style() ? cpu_tasks(device, (nnz + m) * groups, 4096) : m * groups;
  const int64_t block = std::max<int64_t>(1, m * groups / std::max<int64_t>(tasks, 1));
  const Range range(static_cast<size_t>(ceil_div(m, block) * groups));
  with_acc(sums, [&](auto zero) {
    using Acc = decltype(zero);
    launch(queue, kernel, range, task_group(device), rows.data, columns.data, values.data, x.data, y.data, m, n,
           x.strides[0], block, static_cast<Acc>(alpha), static_cast<Acc>(beta));
  });
}

}  // namespace ocl::ops
