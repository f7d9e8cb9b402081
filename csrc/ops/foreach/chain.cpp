#include "ops/foreach/chain.h"

#include "opencl/memory/segment.h"
#include "opencl/program/build_ahead.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace ocl::ops {

namespace {

// Where no other process compiles programs, this many chains are issued stage by stage before the program for fused
// ones is built: a few steps of an optimizer do not pay for it.
constexpr int chains_before_program = 2;

std::mutex chains_mutex;
std::map<Queue*, std::unique_ptr<ForeachChain>>& chains() {
  static auto* all = new std::map<Queue*, std::unique_ptr<ForeachChain>>;
  return *all;
}

// Throws unless all addresses of the stage are memory of the device, so that issuing it later cannot fail for that.
void check_addresses(const Device& device, const ForeachChain::Stage& stage) {
  SegmentInfo last;
  const auto check = [&](const void* pointer) {
    const char* address = static_cast<const char*>(pointer);
    if (!address || (last.device && address >= last.base && address < last.base + last.bytes)) return;
    last = find_segment(address);
    if (last.device != &device)
      throw InvalidArgument("an address that is not memory of ocl:" + std::to_string(device.index()) +
                            " was given to a multi-tensor kernel");
  };
  check(stage.scalar_address);
  for (int k = 0; k <= stage.inputs; ++k)  // list by list, whose tensors often lie in one segment
    for (const MultiTensorRow& row : stage.rows)
      if (row.numel > 0) check(row.data[static_cast<size_t>(k)]);
}

}  // namespace

ForeachChain& ForeachChain::of(Queue& queue, Single single, Fused fused) {
  std::lock_guard lock(chains_mutex);
  auto& chain = chains()[&queue];
  if (!chain) chain.reset(new ForeachChain(queue, single, fused));
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
  check_addresses(queue_.device(), stage);
  std::lock_guard lock(mutex_);
  stages_.reserve(most_stages);
  if (!remainder_.empty()) flush();
  if (!append(stage)) {
    flush();
    if (!append(stage)) {
      const Queue::NoFlush no_flush;
      size_t issued = 0;
      return single_(queue_, stage, issued);
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
    chain->flush();
  });
}

// Whether nothing that is written overlaps with anything else: then it does not matter that one row goes through all
// stages before another.
bool ForeachChain::separate() const {
  struct Range {
    const char *begin, *end;
    bool written;
  };
  const size_t size = size_of(stages_.front().dtype);
  std::vector<Range> ranges;
  for (size_t i = 0; i < rows_.size(); ++i)
    for (int k = 0; k < rows_[i].count; ++k) {
      const char* begin = static_cast<const char*>(rows_[i].data[k]);
      const size_t bytes = static_cast<size_t>(stages_.front().rows[i].numel) * size;
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

// Issues what is deferred. On errors the rows that have not been issued are kept in remainder_, and deferred work
// remains announced to the queue.
void ForeachChain::flush() {
  const Queue::NoFlush no_flush;
  size_t issued = 0;
  const bool tried = remainder_.empty() && stages_.size() > 1 && separate() && worthwhile();
  if (!tried || !issue_fused(issued))
    for (Stage& stage : stages_) {
      stage.rows.erase(stage.rows.begin(), stage.rows.begin() + static_cast<std::ptrdiff_t>(issued));
      remainder_.push_back(std::move(stage));
    }
  stages_.clear();
  for (; !remainder_.empty(); remainder_.pop_front()) {
    Stage& stage = remainder_.front();
    issued = 0;
    try {
      single_(queue_, stage, issued);
    } catch (...) {
      stage.rows.erase(stage.rows.begin(), stage.rows.begin() + static_cast<std::ptrdiff_t>(issued));
      throw;
    }
  }
  queue_.defer(nullptr);
}

bool ForeachChain::worthwhile() {
  if (!fuses_) return false;
  return ++long_chains_ > chains_before_program || BuildAhead::available(queue_.device());
}

// Whether all rows were issued; otherwise only the first `issued`. Single launches then do the rest, or find the error
// again.
bool ForeachChain::issue_fused(size_t& issued) noexcept try {
  std::vector<MultiTensorRow> rows(rows_.size());
  std::vector<double> scalars(rows.size() * stages_.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].numel = stages_.front().rows[i].numel;
    rows[i].data = rows_[i].data;
    for (size_t s = 0; s < stages_.size(); ++s) scalars[i * stages_.size() + s] = stages_[s].rows[i].scalar;
  }
  MultiTensor work;
  work.compute = compute_type(stages_.front().dtype);
  work.rows = rows;
  work.stages = words_;
  work.scalars = scalars;
  std::copy(extras_.begin(), extras_.end(), work.extras.begin());
  return fused_(queue_, stages_.front().dtype, work, issued);
} catch (const BuildError&) {
  fuses_ = false;
  return false;
} catch (const std::exception&) {
  return false;
}

}  // namespace ocl::ops
