#include "ops/embedding/embedding.h"

#include "ops/core/device_errors.h"

#include <algorithm>
#include <stdexcept>

namespace ocl::ops {
namespace {

DType accumulator(DType type) { return type == DType::float64 ? DType::float64 : DType::float32; }

Kernel& embedding_kernel(KernelSite& site, Device& device, DType type, DType index, int mode = 0) {
  require_dtype(device, type, "embedding");
  return site.get(device, Variant().add(type).add(index).add(static_cast<uint64_t>(mode), 2), [&] {
    Defines defines;
    dtype(defines, "D", type);
    dtype(defines, "A", accumulator(type));
    dtype(defines, "INDEX_DTYPE", index);
    return defines.add("MODE", mode);
  });
}

struct Rows {
  int64_t block;
  Range global, local;
};
// A task or a work-group per row.
Rows rows_of(const Device& device, int64_t rows, int64_t width) {
  if (!device.cpu_style()) {
    const int64_t group = width <= 64 ? 64 : width <= 128 ? 128 : 256;
    return {1, Range(std::min<int64_t>(rows, 1 << 20) * group), Range(group)};
  }
  const int64_t block =
      ceil_div(rows, cpu_tasks(device, rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, width))));
  return {block, Range(ceil_div(rows, block)), Range(1)};
}

void check_positions(const TensorView& indices, int64_t rows) {
  if (indices.dtype != DType::int64 && indices.dtype != DType::int32)
    throw InvalidArgument("embedding: indices must be int64 or int32");
  if (indices.numel() >= INT32_MAX || rows >= INT32_MAX - 2)
    throw InvalidArgument("embedding: more than 2^31 look-ups or rows are not supported");
}

}  // namespace

LookupGroups::LookupGroups(Queue& queue, const TensorView& indices, int64_t rows, bool deterministic)
    : rows_(rows),
      starts_(queue, static_cast<size_t>(rows + 2) * sizeof(int32_t)),
      order_(queue, static_cast<size_t>(indices.numel()) * sizeof(int32_t)) {
  check_positions(indices, rows);
  static KernelSite all("embedding/group.cl", "group_all"), count("embedding/group.cl", "group_count"),
      scan("embedding/group.cl", "group_scan"), place("embedding/group.cl", "group_place"),
      sort("embedding/group.cl", "group_sort");
  Device& device = queue.device();
  const int64_t n = indices.numel();
  const auto kernel = [&](KernelSite& site) -> Kernel& {
    return site.get(device, Variant().add(indices.dtype), [&] {
      Defines defines;
      return dtype(defines, "INDEX_DTYPE", indices.dtype);
    });
  };
  if (device.cpu_style()) {
    launch(queue, kernel(all), Range(1), Range(1), indices.data, starts_.data(), order_.data(), n, rows);
    return;
  }
  const int32_t zero = 0;
  queue.fill(starts_.data(), &zero, sizeof zero, static_cast<size_t>(rows + 2) * sizeof zero);
  const Range items(round_up(n, 256)), group(256);
  launch(queue, kernel(count), items, group, indices.data, starts_.data(), n, rows);
  launch(queue, kernel(scan), group, group, starts_.data(), rows);
  launch(queue, kernel(place), items, group, indices.data, starts_.data(), order_.data(), n, rows);
  if (deterministic)
    launch(queue, kernel(sort), Range(round_up(rows, 256)), group, starts_.data(), order_.data(), rows);
}

void embedding_backward(Queue& queue, const TensorView& grad_table, const TensorView& grad, const TensorView& indices,
                        const EmbeddingGradient& how, bool deterministic) {
  if (grad_table.numel() == 0) return;
  static KernelSite site("embedding/embedding.cl", "embedding_backward");
  Device& device = queue.device();
  const int64_t rows = grad_table.sizes[0], width = grad_table.sizes[1];
  const LookupGroups groups(queue, indices, rows, deterministic);
  const Rows r = rows_of(device, rows, width);
  const auto data = [](const TensorView* view) { return view ? view->data : nullptr; };
  launch(queue, embedding_kernel(site, device, grad_table.dtype, indices.dtype), r.global, r.local, grad_table.data,
         grad.data, groups.starts(), groups.order(), data(how.bag), data(how.weights), data(how.bag_size), rows, width,
         how.padding, int32_t{how.by_frequency}, int32_t{how.bag != nullptr}, int32_t{how.weights != nullptr},
         int32_t{how.bag_size != nullptr}, r.block);
}

void embedding_bag(Queue& queue, const EmbeddingBag& problem, const TensorView& out, const TensorView& bag,
                   const TensorView& bag_size, const TensorView& max_rows) {
  if (problem.bags == 0) return;
  static KernelSite site("embedding/embedding.cl", "embedding_bag");
  static const ErrorSite error("embedding_bag");
  static const ErrorSite offsets_error(
      "embedding_bag: offsets have to start with 0 and must not exceed the number of indices",
      ErrorSite::Kind::message);
  Device& device = queue.device();
  check_positions(problem.indices, problem.table.sizes[0]);
  const int64_t positions = problem.indices.numel(), width = problem.table.sizes[1],
                average = std::max<int64_t>(1, positions / problem.bags);
  const Rows r = rows_of(device, problem.bags, width * average);
  launch(queue, embedding_kernel(site, device, out.dtype, problem.indices.dtype, static_cast<int>(problem.mode)),
         r.global, r.local, out.data, bag.data, bag_size.data, max_rows.data, problem.table.data, problem.indices.data,
         problem.offsets.data, problem.weights ? problem.weights->data : nullptr, device_errors(device).data(),
         problem.bags, positions, int64_t{problem.offsets.numel() > problem.bags}, problem.table.sizes[0], width,
         problem.padding, int32_t{problem.weights != nullptr}, error.code(), offsets_error.code(), r.block);
}

void embedding_bag_weights_backward(Queue& queue, const TensorView& grad_weights, const TensorView& grad,
                                    const TensorView& table, const TensorView& indices, const TensorView& bag,
                                    int64_t padding) {
  const int64_t positions = indices.numel();
  if (positions == 0) return;
  static KernelSite site("embedding/embedding.cl", "embedding_bag_weights_backward");
  Device& device = queue.device();
  const int64_t group = device.cpu_style() ? 1 : 64;
  launch(queue, embedding_kernel(site, device, table.dtype, indices.dtype), Range(round_up(positions, group)),
         Range(group), grad_weights.data, grad.data, table.data, indices.data, bag.data, positions, table.sizes[0],
         table.sizes[1], padding);
}

void embedding_renorm(Queue& queue, const TensorView& table, const TensorView& indices, double max_norm,
                      double norm_type) {
  if (table.numel() == 0 || indices.numel() == 0) return;
  static KernelSite site("embedding/embedding.cl", "embedding_renorm");
  Device& device = queue.device();
  const LookupGroups groups(queue, indices, table.sizes[0], false);
  const Range group(device.cpu_style() ? 16 : 64), items(round_up(table.sizes[0], static_cast<int64_t>(group.size[0])));
  Kernel& kernel = embedding_kernel(site, device, table.dtype, indices.dtype);
  if (accumulator(table.dtype) == DType::float64)
    launch(queue, kernel, items, group, table.data, groups.starts(), table.sizes[0], table.sizes[1], max_norm,
           norm_type);
  else
    launch(queue, kernel, items, group, table.data, groups.starts(), table.sizes[0], table.sizes[1],
           static_cast<float>(max_norm), static_cast<float>(norm_type));
}

}  // namespace ocl::ops
