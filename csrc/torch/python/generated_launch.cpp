#include "torch/python/generated_launch.h"

#include "torch/python/exports.h"
#include "torch/runtime/memory_check.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace ocl::python {

namespace {

// Elements for which another task is worth its start, and those of a task where there are many.
constexpr int64_t least_elements = 4096, block_elements = 8192;
constexpr int64_t tasks_per_unit = 4, group_size = 256;

// Rows of a task: enough elements to be worth it, and enough tasks for all compute units.
int64_t block_of(int64_t rows, int64_t columns, int64_t alignment, int64_t units) {
  const int64_t elements = rows * std::max<int64_t>(columns, 1);
  const int64_t tasks = std::clamp<int64_t>(elements / least_elements, 1, tasks_per_unit * units);
  const int64_t most = std::max<int64_t>(block_elements / std::max<int64_t>(columns, 1), 1);
  const int64_t block = std::min(most, (rows + tasks - 1) / tasks);
  return elements <= 2 * least_elements ? rows : (block + alignment - 1) / alignment * alignment;
}

// Work-items that reduce a row together.
int64_t group_for(int64_t columns, int64_t largest) {
  int64_t size = 1;
  while (size < columns && size < largest) size *= 2;
  return size;
}

}  // namespace

Generated::OnDevice Generated::on(int device) {
  const size_t i = static_cast<size_t>(device);
  if (i < devices.size() && devices[i].kernel) return devices[i];
  OnDevice made{.index = device};
  {
    const ReleaseGil no_gil;
    made.kernel = generated_kernel(device, program.c_str(), name.c_str(), source);
  }
  const Capabilities& facts = capabilities(device);
  made.units = std::max<int64_t>(facts.compute_units, 1);
  while (2 * made.group <= std::min<int64_t>(group_size, static_cast<int64_t>(facts.max_work_group))) made.group *= 2;
  if (devices.size() <= i) devices.resize(i + 1);  // other threads ran meanwhile
  return devices[i] = made;
}

void Values::tensor(char kind, const at::Tensor& tensor) {
  switch (kind) {
    case 'F': return number(tensor.item().to<float>());
    case 'D': return number(tensor.item().to<double>());
    case 'Q': return number(tensor.item().to<int64_t>());
    case 'I': return number(tensor.item().to<int32_t>());
    default: runtime::check_memory(tensor); return address(tensor.data_ptr());
  }
}

void launch_generated(const Generated& generated, const Generated::OnDevice& place, Values& values, int64_t rows,
                      int64_t columns) {
  if (!generated.codes.empty()) values.address(device_error_buffer(place.index));
  for (const int32_t code : generated.codes) values.number(code);
  values.number(rows);
  values.number(columns);
  extension::Range global{1, {static_cast<size_t>(rows), 1, 1}}, local{0, {1, 1, 1}};
  if (generated.grid == Grid::tasks) {
    const int64_t block = block_of(rows, columns, generated.alignment, place.units);
    values.number(block);
    global.size[0] = static_cast<size_t>((rows + block - 1) / block);
    local.dimensions = 1;
  } else if (generated.grid == Grid::group_per_row) {
    local = {1, {static_cast<size_t>(group_for(columns, place.group)), 1, 1}};
    global.size[0] *= local.size[0];
  } else {  // left to themselves, drivers divide a prime number of rows into groups of one
    local = {1, {static_cast<size_t>(group_for(rows, place.group)), 1, 1}};
    global.size[0] = (global.size[0] + local.size[0] - 1) / local.size[0] * local.size[0];
  }
  torch_ocl_extension()->launch(place.kernel, global, local, values.data(), values.size());
}

}  // namespace ocl::python
