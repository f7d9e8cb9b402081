// Index arithmetic beyond 2^31 elements: planners only, no memory. Addresses are null, nothing is launched.
#include "support.h"

#include "ops/elementwise/elementwise.h"
#include "ops/index/indexed_plan.h"
#include "ops/reduce/plan.h"

using namespace ocl;
using namespace ocl::ops;

namespace {

constexpr int64_t huge = (int64_t{1} << 31) + 12345;

TensorView shaped(std::initializer_list<int64_t> sizes) { return TensorView::contiguous(nullptr, DType::int8, sizes); }

TensorView strided(std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides) {
  return TensorView::strided(nullptr, DType::int8, std::span<const int64_t>(sizes.begin(), sizes.size()),
                             std::span<const int64_t>(strides.begin(), strides.size()));
}

// Every element of every output belongs to exactly one split.
void expect_covers(const ReduceShape& shape) {
  EXPECT_GE(shape.chunk * shape.splits, shape.extent);
  EXPECT_LT(shape.chunk * (shape.splits - 1), shape.extent);
}

ElementwiseCall call_of(const TensorView& output, const TensorView& input) {
  ElementwiseCall call;
  call.dims = output.dims;
  for (int d = 0; d < output.dims; ++d) {
    call.sizes[d] = output.sizes[output.dims - 1 - d];
    call.output.strides[d] = output.strides[output.dims - 1 - d];
    call.inputs[0].strides[d] = input.strides[output.dims - 1 - d];
  }
  return call;
}

}  // namespace

TEST(Large, NumbersOfElements) {
  EXPECT_EQ(shaped({huge}).numel(), huge);
  EXPECT_EQ(shaped({65536, 65536, 3}).numel(), int64_t{3} << 32);
  EXPECT_EQ(shaped({3, 65536, 65536}).strides[0], int64_t{1} << 32);
  EXPECT_EQ(ceil_div(huge, 256) * 256, round_up(huge, 256));
}

TEST(Large, ElementwiseMergesToOneDimension) {
  ElementwiseCall call = call_of(shaped({3, 65536, 65536}), shaped({3, 65536, 65536}));
  coalesce(call, 1);
  EXPECT_EQ(call.dims, 1);
  EXPECT_EQ(call.sizes[0], int64_t{3} << 32);
}

TEST(Large, ElementwiseKeepsWideStrides) {
  // every other column of a matrix of 2^34 elements, transposed
  const int64_t columns = int64_t{1} << 18;
  ElementwiseCall call = call_of(shaped({columns / 2, 65536}), strided({columns / 2, 65536}, {2, columns}));
  coalesce(call, 1);
  ASSERT_EQ(call.dims, 2);
  EXPECT_EQ(call.sizes[0] * call.sizes[1], int64_t{1} << 33);
  const int64_t last =
      (call.sizes[0] - 1) * call.inputs[0].strides[0] + (call.sizes[1] - 1) * call.inputs[0].strides[1];
  EXPECT_EQ(last, (columns / 2 - 1) * 2 + 65535 * columns);
}

TEST(Large, ReductionOfEverything) {
  for (bool cpu : {true, false}) {
    const ReducePlan plan = plan_reduce(shaped({huge}), 1, shaped({}), TensorView{}, false, {cpu, 8, 256});
    EXPECT_EQ(plan.shape.extent, huge);
    EXPECT_EQ(plan.shape.outputs, 1);
    expect_covers(plan.shape);
  }
}

TEST(Large, ReductionOfRowsAndColumns) {
  const TensorView x = shaped({100000, 50000});
  for (bool cpu : {true, false}) {
    const ReducePlan rows = plan_reduce(x, 2, shaped({100000}), TensorView{}, false, {cpu, 8, 256});
    EXPECT_EQ(rows.shape.outputs * rows.shape.extent, int64_t{5000000000});
    EXPECT_EQ(rows.shape.kept_x[rows.shape.kept - 1], 50000);
    expect_covers(rows.shape);
    const ReducePlan columns = plan_reduce(x, 1, shaped({50000}), TensorView{}, false, {cpu, 8, 256});
    EXPECT_EQ(columns.shape.outputs * columns.shape.extent, int64_t{5000000000});
    EXPECT_EQ(columns.shape.reduced_x[columns.shape.reduced - 1], 50000);
    expect_covers(columns.shape);
  }
}

TEST(Large, ReductionOfExpandedElement) {
  const ReducePlan plan = plan_reduce(strided({huge}, {0}), 1, shaped({}), TensorView{}, false, {true, 8, 256});
  EXPECT_EQ(plan.shape.extent, huge);
  EXPECT_EQ(plan.shape.reduced_x[0], 0);
  expect_covers(plan.shape);
}

TEST(Large, IndexedRows) {
  // index_select of rows from a matrix of 2^33 elements
  const int64_t rows = int64_t{1} << 20, columns = int64_t{1} << 13;
  IndexedOperands operands;
  operands.destination = shaped({rows, columns});
  operands.source = strided({rows, columns}, {0, 1});
  operands.index =
      TensorView::strided(nullptr, DType::int64, std::array<int64_t, 2>{rows, columns}, std::array<int64_t, 2>{1, 0});
  operands.side = IndexSide::source;
  operands.limit = rows;
  operands.step = columns;
  const IndexedPlan plan = plan_indexed(operands);
  EXPECT_EQ(plan.walk.outer * plan.walk.conflict * plan.walk.inner, int64_t{1} << 33);
  EXPECT_EQ(plan.walk.src_step, columns);
  EXPECT_EQ(plan.walk.limit * plan.walk.src_step, int64_t{1} << 33);
}

TEST(Large, IndexedCopyMerges) {
  IndexedOperands operands;
  operands.destination = shaped({5, 65536, 65536});
  operands.source = shaped({5, 65536, 65536});
  const IndexedPlan plan = plan_indexed(operands);
  EXPECT_EQ(plan.walk.outer * plan.walk.conflict * plan.walk.inner, int64_t{5} << 32);
}
