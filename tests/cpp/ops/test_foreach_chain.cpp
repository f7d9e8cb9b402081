// Deferred work over lists (ops/foreach/chain.h): nothing is lost when something fails, and errors belong to the
// operator that caused them.
#include "support.h"

#include "ops/foreach/chain.h"
#include "ops/foreach/foreach.h"

#include <span>
#include <utility>
#include <vector>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

struct RefusedSegments {
  explicit RefusedSegments(int count) { refuse_segments(count); }
  ~RefusedSegments() { refuse_segments(0); }
};

// A stage that adds 1 to every tensor of the list in place.
void add_one(Queue& own, std::span<Array<float>> list) {
  std::vector<MultiTensorRow> rows;
  for (const Array<float>& x : list) rows.push_back({static_cast<int64_t>(x.size()), 1, {x.data(), x.data()}});
  foreach (own, Foreach::add_scalar, DType::float32, rows);
}

std::vector<Array<float>> ones(size_t tensors, size_t elements) {
  std::vector<Array<float>> list;
  for (size_t i = 0; i < tensors; ++i) list.emplace_back(std::vector<float>(elements, 1));
  queue().finish();
  return list;
}

void expect_all(const std::vector<Array<float>>& list, float value) {
  for (const Array<float>& x : list) ASSERT_EQ(x.host(), std::vector<float>(x.size(), value));
}

// What the stages of a test record instead of launches: operator and scalar of every row, and when they fail.
struct Issued {
  std::vector<std::pair<Foreach, double>> rows;
  int single_after = -1, fused_after = -1;  // rows until the next failure; -1: never

  static Issued& all() {
    static Issued issued;
    return issued;
  }
  void add(Foreach op, double scalar, int& until_failure) {
    if (until_failure == 0) {
      until_failure = -1;
      throw DriverError(CL_OUT_OF_RESOURCES, "refused by a test");
    }
    if (until_failure > 0) --until_failure;
    rows.emplace_back(op, scalar);
  }
  static void single(Queue&, const ForeachChain::Stage& stage, size_t& issued) {
    for (const MultiTensorRow& row : stage.rows) {
      all().add(stage.op, row.scalar, all().single_after);
      ++issued;
    }
  }
  static bool fused(Queue&, DType, const MultiTensor& work, size_t& issued) {
    const size_t stages = work.stages.size();
    for (size_t i = 0; i < work.rows.size(); ++i) {
      for (size_t s = 0; s < stages; ++s)
        all().add(static_cast<Foreach>(work.stages[s] & 0xff), work.scalars[i * stages + s], all().fused_after);
      ++issued;
    }
    return true;
  }
};

}  // namespace

TEST(ForeachChain, NothingIsAllocatedWhenDeferredWorkIsIssued) {
  auto list = ones(3, 5000);
  Queue& own = device().new_queue();  // its ring of tables is empty
  add_one(own, list);
  add_one(own, list);
  {
    const RefusedSegments refused(1000);
    EXPECT_NO_THROW(own.finish());
  }
  own.finish();
  expect_all(list, 3);
}

TEST(ForeachChain, AnOperatorWithoutMemoryFailsItselfAndLosesNothing) {
  auto list = ones(1, 5000), long_list = ones(400, 8);  // whose table is larger
  Queue& own = device().new_queue();
  add_one(own, list);
  {
    const RefusedSegments refused(1000);
    EXPECT_THROW(add_one(own, long_list), OutOfMemory);
    EXPECT_NO_THROW(add_one(own, list));
  }
  own.finish();
  expect_all(list, 3);
  expect_all(long_list, 1);
  add_one(own, long_list);
  own.finish();
  expect_all(long_list, 2);
}

TEST(ForeachChain, ForeignAddressesAreRefusedAtOnce) {
  auto list = ones(1, 100);
  std::vector<float> host(100, 1);
  Queue& own = device().new_queue();
  add_one(own, list);
  const std::vector<MultiTensorRow> rows{{100, 1, {host.data(), host.data()}}};
  EXPECT_THROW(foreach (own, Foreach::add_scalar, DType::float32, rows), InvalidArgument);
  own.finish();
  expect_all(list, 2);
}

// Whatever launch fails, every row goes through every stage once, and stages stay in order.
TEST(ForeachChain, RowsThatWereNotIssuedAreKept) {
  constexpr int tensors = 5, stages = 3;
  constexpr Foreach ops[stages] = {Foreach::add_scalar, Foreach::mul_scalar, Foreach::neg};
  auto list = ones(tensors, 10);
  Queue& own = device().new_queue();
  ForeachChain& chain = ForeachChain::of(own, Issued::single, Issued::fused);
  Issued& issued = Issued::all();
  const auto defer_all = [&] {
    issued.rows.clear();
    for (const Foreach op : ops) {
      std::vector<MultiTensorRow> rows;
      for (int i = 0; i < tensors; ++i) rows.push_back({10, double(i), {list[i].data(), list[i].data()}});
      chain.add({op, 1, DType::float32, rows, nullptr});
    }
  };
  for (int i = 0; i < 3; ++i) {  // the first chains may be issued singly
    defer_all();
    own.flush_deferred();
  }
  for (int fused_after = -1; fused_after < tensors * stages; fused_after += fused_after < 0 ? 1 : stages)
    for (int single_after = -1; single_after < tensors * stages; ++single_after) {
      SCOPED_TRACE(::testing::Message() << "fused " << fused_after << " single " << single_after);
      issued.fused_after = fused_after;
      issued.single_after = single_after;
      defer_all();
      int failures = 0;
      for (bool done = false; !done && failures < 3;) try {
          own.flush_deferred();
          done = true;
        } catch (const DriverError&) {
          ++failures;
        }
      issued.fused_after = issued.single_after = -1;
      EXPECT_LE(failures, 1);
      ASSERT_EQ(issued.rows.size(), size_t{tensors * stages});
      for (int i = 0; i < tensors; ++i) {
        std::vector<Foreach> seen;
        for (const auto& [op, scalar] : issued.rows)
          if (scalar == i) seen.push_back(op);
        ASSERT_EQ(seen, std::vector<Foreach>(std::begin(ops), std::end(ops))) << i;
      }
    }
}
