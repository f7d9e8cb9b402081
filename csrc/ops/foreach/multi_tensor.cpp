#include "ops/foreach/multi_tensor.h"

#include "ops/foreach/table_ring.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace ocl::ops {

namespace {

constexpr int max_segments = 12, table_header = 20, row_words = 8;
constexpr uint64_t no_reference = ~uint64_t{0};

// The segments that one launch touches, and references into them.
class Segments {
 public:
  // Index of the address's segment, added when there is room.
  std::optional<uint64_t> reference(const void* address) {
    if (!address) return no_reference;
    const char* p = static_cast<const char*>(address);
    for (int i = 0; i < count_; ++i)
      if (p >= infos_[i].base && p < infos_[i].base + infos_[i].bytes) return make(i, p);
    if (count_ == limit_) return std::nullopt;
    const SegmentInfo info = find_segment(p);
    if (!info.device)
      throw InvalidArgument("an address that is not in OpenCL device memory was given to a multi-tensor kernel");
    infos_[count_] = info;
    return make(count_++, p);
  }
  // Unused arguments repeat the first segment.
  const char* base(int i) const { return infos_[i < count_ ? i : 0].base; }
  int count() const { return count_; }
  void shrink(int count) { count_ = count; }
  void limit(int limit) { limit_ = limit; }

 private:
  uint64_t make(int i, const char* p) const { return uint64_t(i) << 56 | static_cast<uint64_t>(p - infos_[i].base); }
  std::array<SegmentInfo, max_segments> infos_{};
  int count_ = 0, limit_ = max_segments;
};

uint64_t word(DType compute, double value) {
  return compute == DType::float64 ? std::bit_cast<uint64_t>(value)
                                   : std::bit_cast<uint32_t>(static_cast<float>(value));
}

int64_t elements_of_chunk(const Device& device) { return device.cpu_style() ? 16384 : 4096; }

class Batch {
 public:
  Batch(Queue& queue, const MultiTensor& work)
      : queue_(queue), work_(work), chunk_elements_(elements_of_chunk(queue.device())) {
    start();
  }

  // False when the row needs more segments than are left.
  bool add(const MultiTensorRow& row) {
    const int before = segments_.count();
    std::array<uint64_t, row_words> words{static_cast<uint64_t>(row.numel), word(work_.compute, row.scalar)};
    for (int k = 0; k < multi_tensor_lists; ++k) {
      const auto reference = segments_.reference(row.data[k]);
      if (!reference) {
        segments_.shrink(before);
        return false;
      }
      words[2 + k] = *reference;
    }
    if (work_.partials) words[7] = chunks_.size();
    for (int64_t chunk = 0; chunk < ceil_div(row.numel, chunk_elements_); ++chunk)
      chunks_.push_back(uint64_t(rows_) << 32 | uint64_t(chunk));
    table_.insert(table_.end(), words.begin(), words.end());
    const size_t stages = work_.stages.size(), first = static_cast<size_t>(&row - work_.rows.data()) * stages;
    for (size_t i = 0; i < stages; ++i) scalars_.push_back(word(work_.compute, work_.scalars[first + i]));
    ++rows_;
    return true;
  }

  // `next`: the row behind this batch.
  void run(Kernel& chunk_kernel, Kernel* row_kernel, const MultiTensorRow* next, size_t* issued) {
    if (rows_ == 0) return;
    std::optional<Workspace> partials;
    if (work_.partials) {
      partials.emplace(queue_, chunks_.size() * size_of(work_.compute));
      segments_.limit(max_segments);
      table_[16 + 3] = *segments_.reference(partials->data());
    }
    table_.insert(table_.end(), chunks_.begin(), chunks_.end());
    table_.insert(table_.end(), scalars_.begin(), scalars_.end());
    TableRing::of(queue_).with(table_, [&](const void* table) {
      const size_t local = queue_.device().cpu_style() ? 1 : 256;
      launch_one(chunk_kernel, Range(chunks_.size() * local), Range(local), table);
      if (row_kernel) launch_one(*row_kernel, Range(static_cast<size_t>(rows_)), Range(), table);
      if (issued) *issued = static_cast<size_t>(next - work_.rows.data());
    });
    start();
  }

 private:
  void start() {
    rows_ = 0;
    chunks_.clear();
    scalars_.clear();
    table_.assign(table_header, 0);
    segments_.shrink(0);
    segments_.limit(work_.partials ? max_segments - 1 : max_segments);
    for (int i = 0; i < 16; ++i) table_[i] = word(work_.compute, work_.constants[i]);
    std::copy(work_.stages.begin(), work_.stages.end(), table_.begin());
    if (!work_.stages.empty()) table_[15] = work_.stages.size();
    for (int i = 0; i < 4; ++i) table_[16 + i] = *segments_.reference(work_.extras[i]);
  }
  void launch_one(Kernel& kernel, const Range& global, const Range& local, const void* table) {
    const auto s = [&](int i) { return segments_.base(i); };
    launch(queue_, kernel, global, local, table, rows_, s(0), s(1), s(2), s(3), s(4), s(5), s(6), s(7), s(8), s(9),
           s(10), s(11));
  }

  Queue& queue_;
  const MultiTensor& work_;
  const int64_t chunk_elements_;
  Segments segments_;
  std::vector<uint64_t> table_, chunks_, scalars_;
  int32_t rows_ = 0;
};

}  // namespace

void launch_multi_tensor(Queue& queue, const MultiTensor& work, Kernel& chunk_kernel, Kernel* row_kernel,
                         size_t* issued) {
  Batch batch(queue, work);
  for (const MultiTensorRow& row : work.rows) {
    if (row.numel == 0) continue;
    if (batch.add(row)) continue;
    batch.run(chunk_kernel, row_kernel, &row, issued);
    batch.add(row);
  }
  batch.run(chunk_kernel, row_kernel, work.rows.data() + work.rows.size(), issued);
}

size_t multi_tensor_table_bytes(const Device& device, std::span<const MultiTensorRow> rows, size_t stages) {
  size_t words = table_header + rows.size() * (row_words + stages);
  for (const MultiTensorRow& row : rows) words += static_cast<size_t>(ceil_div(row.numel, elements_of_chunk(device)));
  return words * sizeof(uint64_t);
}

}  // namespace ocl::ops
