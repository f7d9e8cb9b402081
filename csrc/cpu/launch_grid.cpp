#include "cpu/launch_grid.h"

#include <algorithm>
#include <cstdint>

namespace ocl {

namespace {

// A dimension with at least this many groups per worker is cut alone, so that a piece is a contiguous part of the
// launch.
constexpr size_t enough = 4;
// With fewer units per worker, one unit more or less makes workers end at different times.
constexpr size_t even = 32;

// What the global offset of a piece says to PoCL's kernels. PoCL compiles small launches for offsets below 65535, so 15
// bits of each of the three offsets are used: a tag of three bits and a payload of 42.
//
//   offset      0                1                 2, bits 0-2   2, bits 3-14
//   holds       payload 0-14     payload 15-29     tag           payload 30-41
//
//   tag         meaning                           payload, from bit 0 on
//   0           nothing is cut                    -
//   d + 1       dimension d is cut                begin (21 bits), groups (21)
//   d + 4       the two other dimensions are cut  begin (10) of the lower and the higher one, groups (10) of both
constexpr size_t offset_bits = 15;
constexpr size_t one_bits = 21, two_bits = 10;

}  // namespace

LaunchGrid::LaunchGrid(HostDriver driver, const std::array<size_t, 3>& groups, unsigned workers)
    : driver_(driver), groups_(groups) {
  outer_ = static_cast<unsigned>(std::max_element(groups.begin(), groups.end()) - groups.begin());
  for (unsigned d = 3; d-- > 0;)
    if (groups[d] >= enough * workers) {
      outer_ = d;
      break;
    }
  inner_ = outer_;
  units_ = groups[outer_];
  most_units_ = driver == HostDriver::basic ? size_t{1} << one_bits : UINT32_MAX;
  if (units_ >= even * workers) return;
  unsigned other = outer_ == 0 ? 1 : 0;
  for (unsigned d = 0; d < 3; ++d)
    if (d != outer_ && groups[d] > groups[other]) other = d;
  if (groups[other] == 1 || std::max(units_, groups[other]) >> two_bits) return;
  units_ *= groups[other];
  // Units of one group of the first dimension stay together: the next kernel may find their data in the same cache.
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
  const uint64_t payload =
      two ? begin[low] | begin[high] << two_bits | groups_[low] << 2 * two_bits | groups_[high] << 3 * two_bits
          : begin[outer_] | groups_[outer_] << one_bits;
  const size_t tag = two ? 3 - outer_ - inner_ + 4 : outer_ + 1;
  constexpr size_t mask = (size_t{1} << offset_bits) - 1;
  return {payload & mask, payload >> offset_bits & mask, tag | payload >> 2 * offset_bits << 3};
}

const char* LaunchGrid::source(HostDriver driver) {
  // No comparisons: for these, Intel's compiler makes several variants of a kernel, each a little slower.
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
uint host_tag(void) { return (uint)get_global_offset(2) & 7; }
ulong host_payload(void) { return get_global_offset(0) | (ulong)get_global_offset(1) << 15 | (ulong)(get_global_offset(2) >> 3) << 30; }
uint host_field(uint d) { return d > host_tag() - 4 ? 10 * (d - 1) : 10 * d; }
size_t host_group_id(uint d) {
  if (host_tag() < 4) return get_group_id(d) + (d + 1 == host_tag() ? host_payload() & 0x1fffff : 0);
  return get_group_id(d) + (d + 4 == host_tag() ? 0 : host_payload() >> host_field(d) & 0x3ff);
}
size_t host_num_groups(uint d) {
  if (host_tag() < 4) return d + 1 == host_tag() ? host_payload() >> 21 : get_num_groups(d);
  return d + 4 == host_tag() ? get_num_groups(d) : host_payload() >> (20 + host_field(d)) & 0x3ff;
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
