#include "ops/foreach/chain.h"

#include "opencl/program/build_ahead.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace ocl::ops {

namespace {

// So many chains are issued stage by stage before the program for joined ones is built where no other process does
// that: a few steps of an optimizer do not pay for it.
constexpr int chains_before_program = 2;

std::mutex chains_mutex;
std::map<Queue*, std::unique_ptr<ForeachChain>>& chains() {
  static auto* all = new std::map<Queue*, std::unique_ptr<ForeachChain>>;
  return *all;
}

}  // namespace

ForeachChain& ForeachChain::of(Queue& queue, Single single, Joined joined) {
  std::lock_guard lock(chains_mutex);
  auto& chain = chains()[&queue];
  if (!chain) chain.reset(new ForeachChain(queue, single, joined));
  return *chain;
}

int ForeachChain::Row::place(const void* address) {
  for (int i = 0; i < count; ++i)
    if (data[i] == address) return i;
  if (count == multi_tensor_lists) return -1;
  data[count] = address;
  return count++;
}

// False, and nothing changed but rows_, when the stage does not fit.
bool ForeachChain::append(const Stage& stage) {
  if (stages_.empty()) {
    rows_.assign(stage.rows.size(), {});
    extras_.clear();
    words_.clear();
  } else {
    const Stage& first = stages_.front();
    const auto same = [](const MultiTensorRow& a, const MultiTensorRow& b) { return a.numel == b.numel; };
    if (stages_.size() == most_stages || stage.dtype != first.dtype) return false;
    if (!std::equal(stage.rows.begin(), stage.rows.end(), first.rows.begin(), first.rows.end(), same)) return false;
  }
  if (stage.scalar_address && extras_.size() == most_extras) return false;
  // The places must be the same in every row: one word describes the stage.
  uint64_t word = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    Row& row = rows_[i];
    uint64_t own = static_cast<uint64_t>(stage.op);
    int out = 0;
    for (int k = 0; k < 4; ++k) {
      const int place =
          k <= stage.inputs ? row.place(stage.rows[i].data[k]) : out;  // out stands for inputs that are not read
      if (place < 0) return false;
      if (k == 0) out = place;
      own |= static_cast<uint64_t>(place) << 8 * (k + 1);
    }
    row.written |= 1u << out;
    if (i == 0) word = own;
    if (own != word) return false;
  }
  if (stage.scalar_address) {
    extras_.push_back(stage.scalar_address);
    word |= static_cast<uint64_t>(extras_.size()) << 40;
  }
  words_.push_back(word);
  return true;
}

void ForeachChain::add(Stage stage) {
  std::lock_guard lock(mutex_);
  if (!append(stage)) {
    issue();
    if (!append(stage)) {
      const Queue::NoFlush no_flush;
      return single_(queue_, stage);
    }
  }
  stages_.push_back(std::move(stage));
  queue_.defer([](Queue& queue) {
    ForeachChain* chain = nullptr;
    {
      std::lock_guard all(chains_mutex);
      chain = chains()[&queue].get();
    }
    std::lock_guard own(chain->mutex_);
    chain->issue();
  });
}

// Whether nothing that is written overlaps with anything else: then it does not matter that one row goes through all
// stages before another.
bool ForeachChain::separate(const std::vector<Stage>& stages) const {
  struct Range {
    const char *begin, *end;
    bool written;
  };
  const size_t size = size_of(stages.front().dtype);
  std::vector<Range> ranges;
  for (size_t i = 0; i < rows_.size(); ++i)
    for (int k = 0; k < rows_[i].count; ++k) {
      const char* begin = static_cast<const char*>(rows_[i].data[k]);
      const size_t bytes = static_cast<size_t>(stages.front().rows[i].numel) * size;
      if (bytes) ranges.push_back({begin, begin + bytes, (rows_[i].written >> k & 1) != 0});
    }
  for (const void* extra : extras_)
    ranges.push_back({static_cast<const char*>(extra), static_cast<const char*>(extra) + size, false});
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const char *end = nullptr, *written_end = nullptr;  // of what began before
  for (const Range& range : ranges) {
    if (range.begin < (range.written ? end : written_end)) return false;
    end = std::max(end, range.end);
    if (range.written) written_end = range.end;
  }
  return true;
}

void ForeachChain::issue() {
  const Queue::NoFlush no_flush;
  const std::vector<Stage> stages = std::exchange(stages_, {});
  const bool joined = stages.size() > 1 && separate(stages) && worthwhile() && issue_joined(stages);
  if (!joined)
    for (const Stage& stage : stages) single_(queue_, stage);
  queue_.defer(nullptr);
}

bool ForeachChain::worthwhile() {
  return ++long_chains_ > chains_before_program || BuildAhead::available(queue_.device());
}

bool ForeachChain::issue_joined(const std::vector<Stage>& stages) {
  std::vector<MultiTensorRow> rows(rows_.size());
  std::vector<double> scalars(rows.size() * stages.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].numel = stages.front().rows[i].numel;
    rows[i].data = rows_[i].data;
    for (size_t s = 0; s < stages.size(); ++s) scalars[i * stages.size() + s] = stages[s].rows[i].scalar;
  }
  MultiTensor work;
  work.compute = compute_type(stages.front().dtype);
  work.rows = rows;
  work.stages = words_;
  work.scalars = scalars;
  std::copy(extras_.begin(), extras_.end(), work.extras.begin());
  return joined_(queue_, stages.front().dtype, work);
}

}  // namespace ocl::ops
