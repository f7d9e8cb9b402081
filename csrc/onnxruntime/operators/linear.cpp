// Matrix products.
#include "onnxruntime/operators/linear.h"

namespace ocl::ort {

namespace {

ops::MatrixStrides strides_of(const TensorView& matrix, int64_t batch) {
  return {batch, matrix.stride(-2), matrix.stride(-1)};
}

// One stride for all leading dimensions of a view that is broadcast to `sizes`; -1: there is none.
int64_t batch_stride(const TensorView& view) {
  int64_t stride = 0, expected = 0;
  bool first = true;
  for (int d = view.dims - 3; d >= 0; --d) {
    if (view.sizes[d] == 1) continue;
    if (first)
      stride = view.strides[d];
    else if (view.strides[d] != expected)
      return -1;
    first = false;
    expected = view.strides[d] * view.sizes[d];
  }
  return stride;
}

struct Product {
  TensorView a, b, y;  // [..., m, k], [..., k, n], [..., m, n] of one rank, broadcast
  Epilogue epilogue;
};

void one_product(Run& run, const Product& p, int64_t batch, int64_t a_batch, int64_t b_batch, int64_t y_batch) {
  ops::GemmProblem problem;
  problem.dtype = p.y.dtype;
  problem.batch = batch;
  problem.m = p.y.size(-2), problem.n = p.y.size(-1), problem.k = p.a.size(-1);
  problem.a = strides_of(p.a, a_batch), problem.b = strides_of(p.b, b_batch), problem.c = strides_of(p.y, y_batch);
  problem.activation = p.epilogue.activation;
  if (p.epilogue.bias) {
    problem.beta = 1;
    problem.d = {0, 0, p.epilogue.bias.stride(-1)};
  }
  ops::gemm(run.queue(), problem, {p.a.data, p.b.data, p.y.data, p.epilogue.bias.data});
}

// Products whose leading dimensions have no one stride: one after the other.
void each_product(Run& run, const Product& p, int64_t batch) {
  const auto bytes = static_cast<int64_t>(ops::size_of(p.y.dtype));
  for (int64_t i = 0; i < batch; ++i) {
    Product one = p;
    int64_t rest = i;
    for (int d = p.y.dims - 3; d >= 0; --d) {
      const int64_t at = rest % p.y.sizes[d];
      rest /= p.y.sizes[d];
      for (TensorView* view : {&one.a, &one.b, &one.y})
        view->data = static_cast<char*>(view->data) + at * view->strides[d] * bytes;
    }
    one_product(run, one, 1, 0, 0, 0);
  }
}

TensorView with_dimension(TensorView view, int at) {
  for (int d = view.dims; d > at; --d) view.sizes[d] = view.sizes[d - 1], view.strides[d] = view.strides[d - 1];
  ++view.dims;
  view.sizes[at] = 1;
  view.strides[at] = 0;
  return view;
}

Sizes leading(const TensorView& view) { return {view.sizes.begin(), view.sizes.begin() + view.dims - 2}; }

void matmul_run(Run& run, ops::Activation activation) {
  TensorView a = run.view(0), b = run.view(1);
  const bool row = a.dims == 1, column = b.dims == 1;
  need(a.dims > 0 && b.dims > 0, "MatMul of a scalar");
  if (row) a = with_dimension(a, 0);
  if (column) b = with_dimension(b, 1);
  need(a.size(-1) == b.size(-2), "the inner sizes differ");
  Sizes given = broadcast_sizes(std::array{leading(a), leading(b)}), y_sizes = given;
  y_sizes.insert(y_sizes.end(), {a.size(-2), b.size(-1)});
  if (!row) given.push_back(a.size(-2));
  if (!column) given.push_back(b.size(-1));
  const TensorView y = reshaped(run.output(0, a.dtype, given), y_sizes);
  multiply(run, a, b, y, {run.has(2) ? run.view(2) : TensorView{}, activation});
}

}  // namespace

void multiply(Run& run, const TensorView& a, const TensorView& b, const TensorView& y, const Epilogue& epilogue) {
  if (y.numel() == 0) return;
  const Sizes batch = leading(y);
  Sizes a_sizes = batch, b_sizes = batch;
  a_sizes.insert(a_sizes.end(), {a.size(-2), a.size(-1)});
  b_sizes.insert(b_sizes.end(), {b.size(-2), b.size(-1)});
  const Product p{broadcast(a, a_sizes), broadcast(b, b_sizes), y, epilogue};
  const int64_t count = count_of(batch);
  const int64_t a_batch = batch_stride(p.a), b_batch = batch_stride(p.b), y_batch = y.size(-2) * y.size(-1);
  // One matrix b for rows that lie behind each other: one product of more rows.
  if (count > 1 && b_batch == 0 && a_batch == a.size(-2) * a.stride(-2)) {
    Product rows = p;
    rows.a.sizes[rows.a.dims - 2] = rows.y.sizes[rows.y.dims - 2] = count * a.size(-2);
    return one_product(run, rows, 1, 0, 0, 0);
  }
  if (a_batch < 0 || b_batch < 0) return each_product(run, p, count);
  one_product(run, p, count, a_batch, b_batch, y_batch);
}

namespace {

Kernel matmul(const Node&) {
  return [](Run& run) { matmul_run(run, ops::Activation::none); };
}

// Made by fusion.cpp.
Kernel matmul_bias(const Node& node) {
  return [activation = static_cast<ops::Activation>(node.integer("activation", 0))](Run& run) {
    matmul_run(run, activation);
  };
}

Kernel gemm(const Node& node) {
  need(node.version >= 7, "broadcasting of opsets before 7");
  const double alpha = node.number("alpha", 1), beta = node.number("beta", 1);
  const bool a_transposed = node.integer("transA", 0) != 0, b_transposed = node.integer("transB", 0) != 0;
  return [=](Run& run) {
    TensorView a = run.view(0), b = run.view(1);
    need(a.dims == 2 && b.dims == 2, "Gemm takes matrices");
    constexpr int swapped[] = {1, 0};
    if (a_transposed) a = permuted(a, swapped);
    if (b_transposed) b = permuted(b, swapped);
    need(a.size(1) == b.size(0), "the inner sizes differ");
    const Sizes sizes{a.size(0), b.size(1)};
    const TensorView y = run.output(0, a.dtype, sizes);
    if (y.numel() == 0) return;
    ops::GemmProblem problem;
    problem.dtype = a.dtype;
    problem.m = sizes[0], problem.n = sizes[1], problem.k = a.size(1);
    problem.a = strides_of(a, 0), problem.b = strides_of(b, 0), problem.c = strides_of(y, 0);
    problem.alpha = alpha;
    const void* added = nullptr;
    if (run.has(2) && beta != 0) {
      const TensorView c = broadcast(run.view(2), sizes);
      problem.d = strides_of(c, 0);
      problem.beta = beta;
      added = c.data;
    }
    ops::gemm(run.queue(), problem, {a.data, b.data, y.data, added});
  };
}

constexpr Operator rows[] = {
    {"MatMul", floats | TypeSet{DType::int32, DType::int64}, matmul},
    {"MatMulBias", floats, matmul_bias},
    {"Gemm", floats, gemm},
};

}  // namespace

std::span<const Operator> linear_operators() { return rows; }

}  // namespace ocl::ort
