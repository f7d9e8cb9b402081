#include "ops/sort/sort.h"

#include "ops/core/lanes.h"
#include "ops/core/type_error.h"
#include "ops/scan/scan.h"
#include "params/sort.h"

#include <algorithm>
#include <stdexcept>

namespace ocl::ops {

namespace {

using params::SortShape;

// GPU: work-items of a group, and elements that it sorts or merges at a time; mirrors sort/sort.cl. Elements of 64-bit
// keys are twice as large.
int64_t gpu_group(DType type) { return size_of(type) == 8 ? 128 : 256; }
int64_t gpu_block(DType type) { return 8 * gpu_group(type); }

struct Sites {
  KernelSite blocks{"sort/sort.cl", "sort_blocks"}, merge{"sort/sort.cl", "sort_merge"},
      write{"sort/sort.cl", "sort_write"}, select{"sort/sort.cl", "sort_select"},
      flags{"sort/groups.cl", "group_flags"}, groups{"sort/groups.cl", "group_write"},
      counts{"sort/groups.cl", "group_counts"};
};
Sites& sites() {
  static Sites instance;
  return instance;
}

int key_bits(DType type) { return size_of(type) == 8 ? 64 : 32; }

Defines make_defines(DType type, bool descending) {
  Defines defines;
  dtype(defines, "IN", type);
  defines.add("IN_BITS", key_bits(type)).add("IN_SIGNED", info(type).is_signed).add("DESCENDING", descending);
  return defines;
}

Kernel& kernel(KernelSite& site, Device& device, DType type, bool descending) {
  return site.get(device, Variant().add(type).add(descending, 1), [&] { return make_defines(type, descending); });
}

SortShape shape_of(const TensorView& x, int dim, const TensorView& values, const TensorView& indices) {
  SortShape shape{};
  shape.rows = shape.n = shape.x_stride = shape.values_stride = shape.indices_stride = 1;
  shape.block = shape.blocks = shape.keep = 1;
  shape.has_values = values.data != nullptr;
  if (x.dims > 0) {
    shape.n = x.sizes[dim];
    shape.x_stride = x.strides[dim];
    shape.values_stride = values.strides[dim];
    shape.indices_stride = indices.strides[dim];
  }
  for (int d = 0; d < x.dims; ++d) {
    if (d == dim || x.sizes[d] == 1) continue;
    shape.kept_size[shape.kept] = x.sizes[d];
    shape.kept_x[shape.kept] = x.strides[d];
    shape.kept_values[shape.kept] = values.strides[d];
    shape.kept_indices[shape.kept] = indices.strides[d];
    ++shape.kept;
    shape.rows *= x.sizes[d];
  }
  return shape;
}

// GPU: few elements of long rows. One work-group a row is too slow for a single row that is very long. Mirrors
// sort/first.gpu.cl.
bool selects_first(const Device& device, DType type, const SortShape& shape) {
  constexpr int64_t most_kept = 1024, longest_single_row = int64_t{1} << 18, longest_row = int64_t{1} << 30;
  return !device.cpu_style() && shape.keep <= most_kept && shape.n > gpu_block(type) &&
         shape.n < (shape.rows > 1 ? longest_row : longest_single_row) && device.capabilities().max_work_group >= 256;
}

void sort_first(Queue& queue, const TensorView& x, const SortShape& shape, bool descending, const TensorView& values,
                const TensorView& indices) {
  static KernelSite site("sort/first.gpu.cl", "sort_first");
  Device& device = queue.device();
  const size_t items = device.capabilities().max_work_group >= 1024 ? 1024 : 256;
  Kernel& select = site.get(device, Variant().add(x.dtype).add(descending, 1), [&] {
    return make_defines(x.dtype, descending).add("ITEMS", static_cast<int64_t>(items));
  });
  launch(queue, select, Range(static_cast<size_t>(shape.rows) * items), Range(items), x.data, values.data, indices.data,
         shape);
}

// (key, index) elements of all rows in sorted order, [rows][n].
class SortedRows {
 public:
  SortedRows(Queue& queue, const TensorView& x, SortShape& shape, bool descending)
      : a_(queue, bytes(x, shape)), b_(queue, bytes(x, shape)) {
    Device& device = queue.device();
    const int64_t units = device.capabilities().compute_units;
    const bool selective = shape.keep <= shape.n / 8;
    if (device.cpu_style()) {
      const int64_t blocks = selective || shape.rows >= units || shape.n < 8192
                                 ? 1
                                 : std::min(ceil_div(units, shape.rows), shape.n / 4096);
      shape.block = ceil_div(shape.n, blocks);
    } else {
      shape.block = std::min(shape.n, gpu_block(x.dtype));
    }
    shape.blocks = ceil_div(shape.n, shape.block);
    const size_t tasks = shape.rows * shape.blocks, group = device.cpu_style() ? 1 : gpu_group(x.dtype);
    launch(queue, kernel(sites().blocks, device, x.dtype, descending), Range(tasks * group), Range(group), x.data,
           a_.data(), b_.data(), shape);
    from_ = a_.data();
    void* to = b_.data();
    for (int64_t width = shape.block; width < shape.n; width *= 2) {
      const int64_t pairs = ceil_div(shape.n, 2 * width), longest = std::min(2 * width, shape.n);
      Kernel& merge = kernel(sites().merge, device, x.dtype, descending);
      if (device.cpu_style()) {
        const int64_t part = ceil_div(shape.n, units), parts = ceil_div(longest, part),
                      items = shape.rows * pairs * parts;
        launch(queue, merge, Range(static_cast<size_t>(items)), Range(1), from_, to, shape.n, width, part, parts, pairs,
               items);
      } else {
        const int64_t tiles = ceil_div(longest, gpu_block(x.dtype));
        launch(queue, merge, Range(static_cast<size_t>(shape.rows * pairs * tiles) * group), Range(group), from_, to,
               shape.n, width, tiles, pairs);
      }
      std::swap(from_, to);
    }
  }
  const void* data() const { return from_; }

 private:
  static size_t bytes(const TensorView& x, const SortShape& shape) {
    return shape.rows * shape.n * (key_bits(x.dtype) / 4);
  }
  Workspace a_, b_;
  void* from_ = nullptr;
};

void check(const Device& device, const TensorView& x, const SortShape& shape) {
  require_dtype(device, x.dtype, "sort");
  if (is_complex(x.dtype)) not_implemented("sort", x.dtype);
  if (shape.n >= int64_t{1} << 32) throw InvalidArgument("sort: rows of 2^32 elements or more are not supported");
}

// Elements per work-item of the simple kernels, and the number of items.
std::pair<int64_t, size_t> items_of(const Device& device, int64_t n) {
  const int64_t per_item = device.cpu_style() ? 16384 : 1;
  return {per_item, static_cast<size_t>(ceil_div(n, per_item))};
}

}  // namespace

void sort(Queue& queue, const TensorView& x, int dim, bool descending, const TensorView& values,
          const TensorView& indices) {
  SortShape shape = shape_of(x, dim, values, indices);
  check(queue.device(), x, shape);
  shape.keep = x.dims ? indices.sizes[dim] : 1;
  if (x.numel() == 0 || shape.keep == 0) return;
  if (shape.keep > shape.n) throw InvalidArgument("sort: more elements wanted than there are");
  if (selects_first(queue.device(), x.dtype, shape)) return sort_first(queue, x, shape, descending, values, indices);
  const SortedRows sorted(queue, x, shape, descending);
  const auto [per_item, items] = items_of(queue.device(), shape.rows * shape.keep);
  launch(queue, kernel(sites().write, queue.device(), x.dtype, descending), Range(items), task_group(queue.device()),
         x.data, sorted.data(), values.data, indices.data, shape, per_item);
}

void select(Queue& queue, Selection selection, const TensorView& x, int dim, int64_t k, const TensorView& values,
            const TensorView& indices) {
  SortShape shape = shape_of(x, dim, values, indices);
  check(queue.device(), x, shape);
  if (x.numel() == 0) return;
  shape.keep = selection == Selection::kth ? k : shape.n;
  const SortedRows sorted(queue, x, shape, false);
  launch(queue, kernel(sites().select, queue.device(), x.dtype, false), Range(shape.rows), Range(), x.data,
         sorted.data(), values.data, indices.data, shape, static_cast<int32_t>(selection), k);
}

int64_t group_equal(Queue& queue, const TensorView& v, void* group) {
  const int64_t n = v.numel();
  if (n == 0) return 0;
  const auto [per_item, items] = items_of(queue.device(), n);
  launch(queue, kernel(sites().flags, queue.device(), v.dtype, false), Range(items), task_group(queue.device()), v.data,
         group, n, per_item);
  const TensorView flags = TensorView::contiguous(group, DType::int64, {n});
  scan(queue, Scan::cumsum, flags, 0, flags);
  int64_t last = 0;
  queue.read(&last, static_cast<int64_t*>(group) + n - 1, sizeof last);
  return last + 1;
}

void write_groups(Queue& queue, const TensorView& v, const void* group, const void* order, int64_t groups, void* values,
                  void* inverse, void* counts) {
  const int64_t n = v.numel();
  if (n == 0) return;
  Workspace starts(queue, groups * sizeof(int64_t));
  const auto [per_item, items] = items_of(queue.device(), n);
  launch(queue, kernel(sites().groups, queue.device(), v.dtype, false), Range(items), task_group(queue.device()),
         v.data, group, order, values, inverse, starts.data(), n, int32_t{order != nullptr},
         int32_t{inverse != nullptr}, per_item);
  if (counts)
    launch(queue, kernel(sites().counts, queue.device(), v.dtype, false), Range(groups), Range(), starts.data(), counts,
           groups, n);
}

}  // namespace ocl::ops
