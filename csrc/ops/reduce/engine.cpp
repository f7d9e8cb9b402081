#include "ops/reduce/engine.h"

#include "ops/core/lanes.h"

namespace ocl::ops {

namespace {

bool wide(DType accumulator) { return accumulator == DType::float64 || accumulator == DType::complex128; }

DType index_type(DType accumulator) {
  switch (size_of(accumulator)) {
    case 1: return DType::int8;
    case 4: return DType::int32;
    default: return DType::int64;
  }
}

Defines make_defines(const ReduceRow& row, DType in, DType accumulator, DType out) {
  Defines defines;
  dtype(defines, "IN", in);
  dtype(defines, "ACC", accumulator);
  dtype(defines, "OUT", out);
  dtype(defines, "INDEX", index_type(accumulator));
  dtype(defines, "PARAM", wide(accumulator) ? DType::float64 : DType::float32);
  const bool complex_abs = row.load == ReduceLoad::absolute && is_complex(in);
  defines.add("W", is_complex(accumulator) || is_complex(in) ? 1 : 16);
  defines.add("INDEXED", row.indexed).add("CENTERED", row.centered);
  defines.add("LOAD_NONZERO", row.load == ReduceLoad::nonzero).add("LOAD_ABS", complex_abs);
  defines.add("IDENTITY", row.identity);
  const auto macro = [&](const char* head, const char* body) {
    defines.text("#define " + std::string(head) + " (" + body + ")");
  };
  macro("MAP(W, x)", row.map);
  defines.add("KEEPS_NAN", row.keeps_nan && is_floating(accumulator));
  macro(row.indexed ? "BETTER(a, b)" : "COMBINE(W, a, b)", row.combine);
  macro("FINISH(a)", row.finish);
  return defines;
}

struct Sites {
  KernelSite inner{"reduce/reduce.cpu.cl", "reduce_inner"}, column{"reduce/reduce.cpu.cl", "reduce_column"},
      final{"reduce/reduce.cpu.cl", "reduce_final"};
  KernelSite gpu{"reduce/reduce.gpu.cl", "reduce_gpu"}, gpu_final{"reduce/reduce.gpu.cl", "reduce_final"};
};

}  // namespace

ReduceTarget reduce_target(const Device& device, bool scalar) {
  return {device.cpu_style(), device.capabilities().compute_units, scalar ? 64 : 1024};
}

ReduceEngine::ReduceEngine(Queue& queue, const ReduceRow& row, DType in, DType out)
    : queue_(queue), row_(row), in_(in), accumulator_(reduce_accumulator(row_, in, out)), out_(out) {
  for (DType type : {in, accumulator_, out}) require_dtype(queue.device(), type, row_.name);
}

ReducePlan ReduceEngine::plan(const TensorView& x, DimMask dims, const TensorView& y, const TensorView& index) const {
  const bool scalar = is_complex(accumulator_) || is_complex(in_);
  return plan_reduce(x, dims, y, index, row_.indexed, reduce_target(queue_.device(), scalar));
}

// The row is told by its place in the table.
uint64_t ReduceEngine::variant() const {
  const auto place = static_cast<uint64_t>(&row_ - reduce_table().data());
  return Variant().add(place, 16).add(in_).add(accumulator_).add(out_);
}

template <class Launch>
void ReduceEngine::with_parameter(double parameter, Launch&& launch_with) const {
  if (wide(accumulator_))
    launch_with(parameter);
  else
    launch_with(static_cast<float>(parameter));
}

void ReduceEngine::run(const ReducePlan& plan, const ReduceData& data, double parameter) const {
  static Sites sites;
  if (plan.shape.outputs == 0) return;
  const uint64_t variant = this->variant();
  const auto defines = [&] { return make_defines(row_, in_, accumulator_, out_); };
  Device& device = queue_.device();
  const int64_t states = plan.shape.splits > 1 ? plan.shape.splits * plan.shape.outputs : 0;
  Workspace partial(queue_, states * size_of(accumulator_));
  Workspace partial_index(queue_, row_.indexed ? states * sizeof(int64_t) : 0);
  const bool inner = device.cpu_style() && plan.kind != ReduceKind::column;
  // Few outputs are finished by the tasks themselves.
  const bool finished = inner && states && plan.tasks / plan.shape.splits <= static_cast<int64_t>(Queue::counter_count);
  if (plan.shape.splits > 0) {
    with_parameter(parameter, [&](auto value) {
      if (inner) {
        const void* const arrivals = finished ? queue_.counters() : nullptr;
        launch(queue_, sites.inner.get(device, variant, defines), Range(plan.tasks), Range(1), data.x, data.y,
               data.index, partial.data(), partial_index.data(), data.centers, plan.shape, value, arrivals);
      } else if (device.cpu_style()) {
        launch(queue_, sites.column.get(device, variant, defines), Range(plan.tasks), Range(1), data.x, data.y,
               data.index, partial.data(), partial_index.data(), data.centers, plan.shape, value);
      } else {
        const int32_t reduced_fast = plan.kind != ReduceKind::column;
        launch(queue_, sites.gpu.get(device, variant, defines), Range(plan.tasks * 256), Range(256), data.x, data.y,
               data.index, partial.data(), partial_index.data(), data.centers, plan.shape, value, reduced_fast);
      }
    });
    if (plan.shape.splits == 1 || finished) return;
  }
  finish(plan, partial.data(), partial_index.data(), data, parameter);
}

void ReduceEngine::finish(const ReducePlan& plan, const void* partial, const void* partial_index,
                          const ReduceData& data, double parameter) const {
  static Sites sites;
  Device& device = queue_.device();
  const uint64_t variant = this->variant();
  Kernel& kernel = (device.cpu_style() ? sites.final : sites.gpu_final).get(device, variant, [&] {
    return make_defines(row_, in_, accumulator_, out_);
  });
  ReduceShape shape = plan.shape;
  constexpr size_t finishers = 64;  // mirrors reduce/reduce.gpu.cl
  shape.per_task = 256;
  const Range range = device.cpu_style() ? Range(ceil_div(shape.outputs, shape.per_task))
                                         : Range(static_cast<size_t>(shape.outputs) * finishers);
  with_parameter(parameter, [&](auto value) {
    launch(queue_, kernel, range, device.cpu_style() ? task_group(device) : Range(finishers), partial, partial_index,
           data.y, data.index, shape, plan.shape.splits, value);
  });
}

void reduce(Queue& queue, Reduction op, const TensorView& x, DimMask dims, const TensorView& y, double parameter,
            const TensorView& index) {
  reduce(queue, reduce_row(op), x, dims, y, parameter, index);
}

void reduce(Queue& queue, const ReduceRow& row, const TensorView& x, DimMask dims, const TensorView& y,
            double parameter, const TensorView& index) {
  const ReduceEngine engine(queue, row, x.dtype, y.data ? y.dtype : x.dtype);
  const ReducePlan plan = engine.plan(x, dims, y, index);
  engine.run(plan, {x.data, y.data, index.data, nullptr}, parameter);
}

}  // namespace ocl::ops
