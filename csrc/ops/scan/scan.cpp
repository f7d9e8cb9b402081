#include "ops/scan/scan.h"
#include "ops/core/type_error.h"
#include "params/scan.h"

#include <algorithm>
#include <stdexcept>

namespace ocl::ops {

namespace {

using params::ScanShape;

struct ScanRow {
  Scan op;
  const char* name;
  bool indexed, vector;  // vector: the combination works on lanes
  const char* identity;
  const char* combine;  // of a and the later b; for indexed rows the condition that b replaces a
};

constexpr ScanRow table[] = {
    {Scan::cumsum, "cumsum", false, true, "0", "(a) + (b)"},
    {Scan::cumprod, "cumprod", false, true, "ONE", "PRODUCT(a, b)"},
    {Scan::logcumsumexp, "logcumsumexp", false, true, "LOWEST", "LOG_ADD_EXP(W, a, b)"},
    {Scan::cummax, "cummax", true, false, "LOWEST", "((b) != (b)) | (((a) == (a)) & ((b) >= (a)))"},
    {Scan::cummin, "cummin", true, false, "HIGHEST", "((b) != (b)) | (((a) == (a)) & ((b) <= (a)))"},
};

const ScanRow& row_of(Scan op) {
  for (const ScanRow& row : table)
    if (row.op == op) return row;
  throw InvalidArgument("unknown scan");
}

DType accumulator(const ScanRow& row, DType in, DType out, bool fp64) {
  if (row.op == Scan::cumsum || row.op == Scan::cumprod) {
    const DType type = accumulate_type(out);
    return type == DType::complex64 && fp64 ? DType::complex128 : type;  // as real ones are carried in float64 (below)
  }
  if (is_complex(in)) not_implemented(row.name, in);
  if (!row.indexed) return fp64 ? DType::float64 : DType::float32;  // chains of log1p(exp()) lose too much in float32
  const DType type = compute_type(in);
  if (!is_integral(type) || type == DType::int64 || type == DType::uint64) return type;
  return type == DType::uint32 ? DType::int64 : DType::int32;
}

struct Dim {
  int64_t size, x, y, index;
};

ScanShape shape_of(const TensorView& x, int dim, const TensorView& y, const TensorView& index) {
  ScanShape shape{};
  shape.rows = shape.n = shape.x_stride = shape.y_stride = shape.index_stride = 1;
  shape.chunk = shape.chunks = shape.group = shape.pass = 1;
  Dim kept[max_dims];
  int count = 0;
  if (x.dims > 0) {
    shape.n = x.sizes[dim];
    shape.x_stride = x.strides[dim];
    shape.y_stride = y.strides[dim];
    shape.index_stride = index.data ? index.strides[dim] : 0;
  }
  for (int d = 0; d < x.dims; ++d) {
    if (d == dim || x.sizes[d] == 1) continue;
    kept[count++] = {x.sizes[d], x.strides[d], y.strides[d], index.data ? index.strides[d] : 0};
    shape.rows *= x.sizes[d];
  }
  std::stable_sort(kept, kept + count, [](const Dim& a, const Dim& b) { return a.x > b.x; });
  for (int i = 0; i < count; ++i) {
    const Dim& next = kept[i];
    const int last = shape.kept - 1;
    if (last >= 0 && shape.kept_x[last] == next.x * next.size && shape.kept_y[last] == next.y * next.size &&
        shape.kept_index[last] == next.index * next.size) {
      shape.kept_size[last] *= next.size;
      shape.kept_x[last] = next.x, shape.kept_y[last] = next.y, shape.kept_index[last] = next.index;
    } else {
      shape.kept_size[shape.kept] = next.size;
      shape.kept_x[shape.kept] = next.x, shape.kept_y[shape.kept] = next.y, shape.kept_index[shape.kept] = next.index;
      ++shape.kept;
    }
  }
  return shape;
}

// Cuts every row into chunks so that at least `wanted` tasks of at least `least` elements run.
void cut(ScanShape& shape, int64_t items, int64_t wanted, int64_t least) {
  int64_t chunks = std::min(ceil_div(wanted, std::max<int64_t>(items, 1)), shape.n / least);
  chunks = std::max<int64_t>(chunks, 1);
  shape.chunk = round_up(ceil_div(shape.n, chunks), 16);
  shape.chunks = ceil_div(shape.n, shape.chunk);
  shape.group = shape.chunks > 1 ? 1 : std::max<int64_t>(1, ceil_div(items, wanted));
}

struct Sites {
  KernelSite rows{"scan/scan.cl", "scan_rows"}, columns{"scan/scan.cl", "scan_columns"},
      items{"scan/scan.cl", "scan_items"}, groups{"scan/scan.cl", "scan_groups"},
      carries{"scan/scan.cl", "scan_carries"};
};

}  // namespace

void scan(Queue& queue, Scan op, const TensorView& x, int dim, const TensorView& y, const TensorView& index) {
  static Sites sites;
  const ScanRow& row = row_of(op);
  if (x.dims != y.dims || !std::equal(x.sizes.begin(), x.sizes.begin() + x.dims, y.sizes.begin()))
    throw InvalidArgument(std::string(row.name) + ": output " + y.shape_string() + " does not fit input " +
                          x.shape_string());
  if (x.numel() == 0) return;
  Device& device = queue.device();
  const DType acc = accumulator(row, x.dtype, y.dtype, device.capabilities().fp64);
  const DType carry = acc == DType::float32 && row.vector && device.capabilities().fp64 ? DType::float64 : acc;
  for (DType type : {x.dtype, y.dtype, acc}) require_dtype(device, type, row.name);
  const bool vector = row.vector && !is_complex(acc) && !is_complex(x.dtype);
  ScanShape shape = shape_of(x, dim, y, index);

  const int64_t columns = shape.kept ? shape.kept_size[shape.kept - 1] : 1;
  const bool dense =
      shape.kept && shape.kept_x[shape.kept - 1] == 1 && shape.kept_y[shape.kept - 1] == 1 && shape.x_stride != 1;
  const bool by_column =
      device.cpu_style() ? dense && vector : shape.rows >= 32 && (shape.x_stride != 1 || shape.n < 64);
  const int64_t items = !device.cpu_style() || !by_column ? shape.rows : shape.rows / columns * ceil_div(columns, 16);
  if (device.cpu_style())
    cut(shape, items, std::min<int64_t>(cpu_tasks(device, x.numel()), 8 * device.capabilities().compute_units),
        by_column ? 512 : 8192);
  else if (by_column)
    cut(shape, ceil_div(items, 256), 4 * device.capabilities().compute_units, 64);
  else
    cut(shape, items, 4 * device.capabilities().compute_units, 2048);

  const auto defines = [&] {
    Defines d;
    dtype(d, "IN", x.dtype);
    dtype(d, "ACC", acc);
    dtype(d, "OUT", y.dtype);
    dtype(d, "CARRY", carry);
    d.add("INDEXED", row.indexed).add("VECTOR", vector).add("VECTOR_COLUMNS", vector).add("IDENTITY", row.identity);
    d.text(std::string("#define ") + (row.indexed ? "WINS(a, b)" : "COMBINE_VALUES(W, a, b)") + " (" + row.combine +
           ")");
    return d;
  };
  const uint64_t variant = Variant().add(static_cast<uint64_t>(op), 4).add(x.dtype).add(y.dtype);
  const int64_t states = shape.chunks > 1 ? shape.rows * shape.chunks : 0;
  Workspace carries(queue, states * size_of(carry));
  Workspace carry_indices(queue, row.indexed ? states * sizeof(int64_t) : 0);
  const auto pass = [&](int number) {
    shape.pass = number;
    const auto go = [&](KernelSite& site, Range global, Range local) {
      launch(queue, site.get(device, variant, defines), global, local, x.data, y.data, index.data, carries.data(),
             carry_indices.data(), shape);
    };
    const size_t tasks = ceil_div(items, shape.group) * shape.chunks;
    if (device.cpu_style())
      go(by_column ? sites.columns : sites.rows, Range(tasks), Range(1));
    else if (by_column)
      go(sites.items, Range(round_up(shape.rows, 256), shape.chunks), Range(256, 1));
    else
      go(sites.groups, Range(shape.rows * shape.chunks * 256), Range(256));
  };
  if (shape.chunks > 1) {
    pass(0);
    launch(queue, sites.carries.get(device, variant, defines), Range(shape.rows), Range(), carries.data(),
           carry_indices.data(), shape.rows, shape.chunks);
  }
  pass(1);
}

}  // namespace ocl::ops
