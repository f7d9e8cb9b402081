#include "cpu/launch_grid.h"

#include <algorithm>
#include <cstdint>

namespace ocl {

namespace {

// A dimension with so many groups for every member is cut along whole rows of groups, so that a piece is a contiguous
// part of the launch.
constexpr size_t enough = 4;
// With fewer units for every member, one more or less than the others' is noticed.
constexpr size_t even = 32;

// PoCL compiles launches of fewer work-items for offsets below 65535, so 15 bits of each are used. The lowest three of
// the last say what the others mean, `told`: 0 nothing, d + 1: dimension d is cut, told = begin | groups << 21; d + 4:
// the two others are, told = begin | begin << 10 | groups << 20 | groups << 30.
constexpr size_t told_bits = 15;
constexpr size_t one_bits = 21, two_bits = 10;

}  // namespace

LaunchGrid::LaunchGrid(HostDriver driver, const std::array<size_t, 3>& groups, unsigned members)
    : driver_(driver), groups_(groups) {
  outer_ = static_cast<unsigned>(std::max_element(groups.begin(), groups.end()) - groups.begin());
  for (unsigned d = 3; d-- > 0;)
    if (groups[d] >= enough * members) {
      outer_ = d;
      break;
    }
  inner_ = outer_;
  units_ = groups[outer_];
  most_units_ = driver == HostDriver::basic ? size_t{1} << one_bits : UINT32_MAX;
  if (units_ >= even * members) return;
  unsigned other = outer_ == 0 ? 1 : 0;
  for (unsigned d = 0; d < 3; ++d)
    if (d != outer_ && groups[d] > groups[other]) other = d;
  if (groups[other] == 1 || std::max(units_, groups[other]) >> two_bits) return;
  units_ *= groups[other];
  // What belongs to one group along the dimension that would be cut anyway stays together: the next kernel may find it
  // in the same cache.
  inner_ = other;
}

std::array<size_t, 3> LaunchGrid::offset(const Box& box) const {
  std::array<size_t, 3> offset{0, 0, 0};
  if (driver_ == HostDriver::local_thread) {
    for (unsigned d = 0; d < 3; ++d) offset[d] = box.begin[d] | (groups_[d] - box.count[d]) << 32;
    return offset;
  }
  if (!divisible()) return offset;
  const auto& begin = box.begin;
  const bool two = outer_ != inner_;
  const auto [low, high] = std::minmax(outer_, inner_);
  const uint64_t told =
      two ? begin[low] | begin[high] << two_bits | groups_[low] << 2 * two_bits | groups_[high] << 3 * two_bits
          : begin[outer_] | groups_[outer_] << one_bits;
  const size_t meaning = two ? 3 - outer_ - inner_ + 4 : outer_ + 1;
  constexpr size_t mask = (size_t{1} << told_bits) - 1;
  return {told & mask, told >> told_bits & mask, meaning | told >> 2 * told_bits << 3};
}

const char* LaunchGrid::source(HostDriver driver) {
  // Without comparisons, for which Intel's compiler makes kernels of several variants, each a few percent slower.
  if (driver == HostDriver::local_thread)
    return R"(
size_t host_group_id(uint d) { return (uint)get_group_id(d) + (uint)get_global_offset(d); }
size_t host_num_groups(uint d) { return (uint)get_num_groups(d) + (uint)(get_global_offset(d) >> 32); }
size_t host_global_id(uint d) { return host_group_id(d) * get_local_size(d) + get_local_id(d); }
size_t host_global_size(uint d) { return host_num_groups(d) * get_local_size(d); }
#define get_group_id(d) host_group_id(d)
#define get_num_groups(d) host_num_groups(d)
#define get_global_id(d) host_global_id(d)
#define get_global_size(d) host_global_size(d)
#define get_global_offset(d) ((size_t)0)
)";
  return R"(
uint host_meaning(void) { return (uint)get_global_offset(2) & 7; }
ulong host_told(void) { return get_global_offset(0) | (ulong)get_global_offset(1) << 15 | (ulong)(get_global_offset(2) >> 3) << 30; }
uint host_field(uint d) { return d > host_meaning() - 4 ? 10 * (d - 1) : 10 * d; }
size_t host_group_id(uint d) {
  if (host_meaning() < 4) return get_group_id(d) + (d + 1 == host_meaning() ? host_told() & 0x1fffff : 0);
  return get_group_id(d) + (d + 4 == host_meaning() ? 0 : host_told() >> host_field(d) & 0x3ff);
}
size_t host_num_groups(uint d) {
  if (host_meaning() < 4) return d + 1 == host_meaning() ? host_told() >> 21 : get_num_groups(d);
  return d + 4 == host_meaning() ? get_num_groups(d) : host_told() >> (20 + host_field(d)) & 0x3ff;
}
size_t host_global_id(uint d) { return host_group_id(d) * get_local_size(d) + get_local_id(d); }
size_t host_global_size(uint d) { return host_num_groups(d) * get_local_size(d); }
#define get_group_id(d) host_group_id(d)
#define get_num_groups(d) host_num_groups(d)
#define get_global_id(d) host_global_id(d)
#define get_global_size(d) host_global_size(d)
#define get_global_offset(d) ((size_t)0)
)";
}

}  // namespace ocl
