// How launches on threads of the process are divided into pieces (cpu/launch_grid.h).
#include "cpu/launch_grid.h"

#include <gtest/gtest.h>

#include <vector>

namespace ocl::testing {
namespace {

// How often units [begin, end) visit each group, x fastest.
std::vector<int> visits(const LaunchGrid& grid, const std::array<size_t, 3>& groups, size_t begin, size_t end) {
  std::vector<int> count(groups[0] * groups[1] * groups[2]);
  EXPECT_EQ(grid.each_box(begin, end,
                          [&](const LaunchGrid::Box& box) {
                            for (size_t z = 0; z < box.count[2]; ++z)
                              for (size_t y = 0; y < box.count[1]; ++y)
                                for (size_t x = 0; x < box.count[0]; ++x)
                                  ++count.at(box.begin[0] + x +
                                             groups[0] * (box.begin[1] + y + groups[1] * (box.begin[2] + z)));
                            return CL_SUCCESS;
                          }),
            CL_SUCCESS);
  return count;
}

TEST(LaunchGrid, PiecesVisitEveryGroupOnce) {
  const std::array<size_t, 3> cases[] = {{1, 1, 1}, {7, 2, 1},   {2, 7, 1},   {16, 4, 1},   {4, 1, 5}, {1, 13, 2},
                                         {3, 4, 5}, {2, 3, 100}, {300, 3, 1}, {1024, 2, 1}, {5, 1, 1}};
  for (const HostDriver driver : {HostDriver::basic, HostDriver::local_thread})
    for (const auto& groups : cases)
      for (const unsigned workers : {1u, 2u, 16u}) {
        const LaunchGrid grid(driver, groups, workers);
        const size_t units = grid.units(), all = groups[0] * groups[1] * groups[2];
        ASSERT_EQ(all % units, 0u);
        for (size_t begin = 0; begin < units; begin += 1 + begin / 3)
          for (size_t end = begin + 1; end <= units; end += 1 + end / 5) {
            const auto before = visits(grid, groups, 0, begin), piece = visits(grid, groups, begin, end),
                       after = visits(grid, groups, end, units);
            for (size_t i = 0; i < all; ++i)
              ASSERT_EQ(before[i] + piece[i] + after[i], 1) << units << " units, " << begin << " to " << end;
          }
      }
}

TEST(LaunchGrid, FewGroupsAreSharedEvenly) {
  EXPECT_EQ(LaunchGrid(HostDriver::basic, {7, 2, 1}, 2).units(), 14u);
  EXPECT_EQ(LaunchGrid(HostDriver::basic, {5, 1, 1}, 2).units(), 5u);       // there is nothing else to cut
  EXPECT_EQ(LaunchGrid(HostDriver::basic, {64, 2, 1}, 2).units(), 64u);     // even enough
  EXPECT_EQ(LaunchGrid(HostDriver::basic, {2000, 60, 1}, 2).units(), 60u);  // more groups than two dimensions can tell
}

TEST(LaunchGrid, AnErrorEndsAPiece) {
  int calls = 0;
  const LaunchGrid grid(HostDriver::basic, {7, 3, 1}, 2);
  EXPECT_EQ(grid.each_box(1, 20, [&](const LaunchGrid::Box&) { return ++calls, CL_OUT_OF_RESOURCES; }),
            CL_OUT_OF_RESOURCES);
  EXPECT_EQ(calls, 1);
}

// Offsets that PoCL compiles anew for are those from 65535 on.
TEST(LaunchGrid, OffsetsStaySmall) {
  for (const std::array<size_t, 3>& groups :
       {std::array<size_t, 3>{1000, 7, 1}, {(size_t{1} << 21) - 1, 1, 1}, {5, 1023, 3}, {31, 1, 1023}}) {
    const LaunchGrid grid(HostDriver::basic, groups, 400);
    EXPECT_TRUE(grid.divisible());
    for (const size_t begin : {size_t{0}, grid.units() / 2, grid.units() - 1})
      grid.each_box(begin, grid.units(), [&](const LaunchGrid::Box& box) {
        for (const size_t offset : grid.offset(box)) EXPECT_LT(offset, 65535u - 16384u);
        return CL_SUCCESS;
      });
  }
  EXPECT_FALSE(LaunchGrid(HostDriver::basic, {size_t{1} << 21, 1, 1}, 2).divisible());
}

}  // namespace
}  // namespace ocl::testing
