#include "ops/index/index.h"
#include "ops/shape/shape.h"
#include "params/shape.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

namespace ocl::ops {
namespace {

using params::concatenate_slots;
using params::ConcatenateShape;

// `view` with its dimensions in the memory order of `order`.
TensorView permuted(const TensorView& view, std::span<const int> order) {
  TensorView result = view;
  for (int d = 0; d < view.dims; ++d) {
    result.sizes[d] = view.sizes[order[d]];
    result.strides[d] = view.strides[order[d]];
  }
  return result;
}

std::vector<int> memory_order(const TensorView& view) {
  std::vector<int> order(view.dims);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return view.strides[a] > view.strides[b]; });
  return order;
}

struct Piece {
  const void* data;
  int64_t start, length;  // columns of the row
  int64_t pitch;          // elements from one row of the piece to the next
};

// Elements from one row of `view`, its dimensions from `row_dim` on, to the next; nothing where rows are not dense or
// not at one distance.
std::optional<int64_t> row_pitch(const TensorView& view, int row_dim) {
  int64_t numel = 1;
  for (int d = view.dims - 1; d >= row_dim; --d) {
    if (view.sizes[d] != 1 && view.strides[d] != numel) return std::nullopt;
    numel *= view.sizes[d];
  }
  std::optional<int64_t> pitch;
  int64_t expected = 0;
  for (int d = row_dim - 1; d >= 0; --d) {
    if (view.sizes[d] == 1) continue;
    if (!pitch) pitch = expected = view.strides[d];
    if (view.strides[d] != expected) return std::nullopt;
    expected *= view.sizes[d];
  }
  return pitch.value_or(numel);
}

// Neighbouring elements as one of up to 16 bytes, where every piece consists of whole ones.
size_t widen(const void* out, std::span<Piece> pieces, int64_t& pitch, size_t bytes) {
  const auto fits = [&](size_t wide) {
    const auto aligned = [&](const void* p) { return reinterpret_cast<uintptr_t>(p) % wide == 0; };
    const auto whole = [&](int64_t elements) { return elements % static_cast<int64_t>(wide / bytes) == 0; };
    return aligned(out) && whole(pitch) && std::all_of(pieces.begin(), pieces.end(), [&](const Piece& p) {
             return aligned(p.data) && whole(p.start) && whole(p.length) && whole(p.pitch);
           });
  };
  size_t wide = 16;
  while (wide > bytes && !fits(wide)) wide /= 2;
  const auto factor = static_cast<int64_t>(wide / bytes);
  pitch /= factor;
  for (Piece& p : pieces) p.start /= factor, p.length /= factor, p.pitch /= factor;
  return wide;
}

// Up to 8 pieces that lie side by side, one launch.
void copy_pieces(Queue& queue, void* out, std::span<Piece> pieces, int64_t rows, int64_t pitch, size_t bytes) {
  static KernelSite any_site("shape/shape.cl", "concatenate"), narrow_site("shape/shape.cl", "concatenate_narrow");
  Device& device = queue.device();
  if (!device.cpu_style()) bytes = widen(out, pieces, pitch, bytes);
  ConcatenateShape shape{};
  shape.block = 1;
  const void* data[concatenate_slots] = {};
  for (size_t i = 0; i < pieces.size(); ++i) {
    data[i] = pieces[i].data;
    shape.start[i] = pieces[i].start;
    shape.length[i] = pieces[i].length;
    shape.pitches[i] = pieces[i].pitch;
    shape.width += pieces[i].length;
  }
  shape.first = pieces.front().start;
  shape.pitch = pitch;
  shape.total = rows * shape.width;
  const auto kernel_of = [&](KernelSite& site) -> Kernel& {
    return site.get(device, Variant().add(bytes, 6),
                    [&] { return Defines().add("BYTES", static_cast<int64_t>(bytes)); });
  };
  const auto slots = static_cast<int32_t>(pieces.size());
  if (device.cpu_style() && shape.width <= 16 * slots && rows > 16) {
    shape.block = ceil_div(rows, cpu_tasks(device, shape.total));
    launch(queue, kernel_of(narrow_site), Range(static_cast<size_t>(ceil_div(rows, shape.block))), Range(1), out,
           data[0], data[1], data[2], data[3], data[4], data[5], data[6], data[7], shape, slots);
    return;
  }
  if (device.cpu_style())
    shape.block = ceil_div(shape.total, cpu_tasks(device, shape.total));
  else
    std::fill(shape.start + slots, std::end(shape.start), INT64_MAX);
  constexpr int64_t group = 256, per_item = 4;  // mirrors shape/shape.cl
  const int64_t items =
      device.cpu_style() ? ceil_div(shape.total, shape.block) : ceil_div(shape.total, group * per_item) * group;
  launch(queue, kernel_of(any_site), Range(static_cast<size_t>(items)), Range(device.cpu_style() ? 1 : group), out,
         data[0], data[1], data[2], data[3], data[4], data[5], data[6], data[7], shape);
}

}  // namespace

void concatenate(Queue& queue, const TensorView& out, std::span<const TensorView> inputs, int dim) {
  if (out.numel() == 0) return;
  if (dim < 0) dim += out.dims;
  const std::vector<int> order = memory_order(out);
  const TensorView dense_out = permuted(out, order);
  const int row_dim = static_cast<int>(std::find(order.begin(), order.end(), dim) - order.begin());
  // 8 and 16-byte elements travel as pairs of 4 bytes: fewer programs.
  const size_t bytes = std::min<size_t>(size_of(out.dtype), 4);
  const int64_t units = static_cast<int64_t>(size_of(out.dtype) / bytes);
  int64_t rows = 1, inner = units;
  for (int d = 0; d < row_dim; ++d) rows *= dense_out.sizes[d];
  for (int d = row_dim + 1; d < out.dims; ++d) inner *= dense_out.sizes[d];
  const int64_t pitch = dense_out.sizes[row_dim] * inner;

  std::vector<Piece> pieces;
  const auto flush = [&] {
    if (!pieces.empty()) copy_pieces(queue, out.data, pieces, rows, pitch, bytes);
    pieces.clear();
  };
  int64_t position = 0;
  for (const TensorView& input : inputs) {
    if (input.numel() == 0) continue;
    if (input.dtype != out.dtype) throw InvalidArgument("cat: inputs and output must have one dtype");
    const std::optional<int64_t> piece_pitch = row_pitch(permuted(input, order), row_dim);
    if (dense_out.is_contiguous() && piece_pitch) {
      pieces.push_back({input.data, position * inner, input.sizes[dim] * inner, *piece_pitch * units});
      if (pieces.size() == concatenate_slots) flush();
    } else {
      flush();
      TensorView slice = out;
      slice.sizes = input.sizes;
      slice.data =
          static_cast<char*>(out.data) + position * out.strides[dim] * static_cast<int64_t>(size_of(out.dtype));
      copy_strided(queue, slice, input);
    }
    position += input.sizes[dim];
  }
  flush();
}

void roll(Queue& queue, const TensorView& out, const TensorView& self, std::span<const int64_t> shifts,
          std::span<const int> dims) {
  if (shifts.size() != dims.size()) throw InvalidArgument("roll: one shift per dimension is needed");
  if (out.numel() == 0) return;
  if (dims.empty()) return copy_strided(queue, out, self);
  const int d = dims[0] < 0 ? dims[0] + self.dims : dims[0];
  const int64_t size = self.sizes[d], shift = ((shifts[0] % size) + size) % size;
  const auto part = [&](const TensorView& whole, int64_t from, int64_t to) {
    TensorView result = whole;
    result.sizes[d] = to - from;
    result.data = static_cast<char*>(whole.data) + from * whole.strides[d] * static_cast<int64_t>(size_of(whole.dtype));
    return result;
  };
  // [0, size - shift) moves up by shift, the rest wraps to the front.
  const TensorView wrapped = part(self, size - shift, size), moved = part(self, 0, size - shift);
  if (dims.size() == 1) return concatenate(queue, out, std::array{wrapped, moved}, d);
  roll(queue, part(out, 0, shift), wrapped, shifts.subspan(1), dims.subspan(1));
  roll(queue, part(out, shift, size), moved, shifts.subspan(1), dims.subspan(1));
}

}  // namespace ocl::ops
