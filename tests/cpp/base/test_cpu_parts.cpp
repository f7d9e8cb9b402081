// How the processors are cut into devices.
#include "base/cpu_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

namespace ocl {
namespace {

using cpu_parts::Part;
using cpu_parts::Processor;
using Numbers = std::vector<int>;

TEST(CpuParts, Lists) {
  EXPECT_EQ(cpu_parts::numbers_of("0-2,8,10-11\n"), (Numbers{0, 1, 2, 8, 10, 11}));
  EXPECT_EQ(cpu_parts::numbers_of(""), Numbers());
  EXPECT_EQ(cpu_parts::numbers_of("x,3"), Numbers{3});
  EXPECT_EQ(cpu_parts::list_of({0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
  EXPECT_EQ(cpu_parts::list_of({}), "");
}

// Two nodes of four cores with two threads each: processors 0-3 and 8-11, 4-7 and 12-15.
std::vector<Processor> two_nodes() {
  std::vector<Processor> result;
  for (int number = 0; number < 16; ++number) {
    const int core = number % 8;
    result.push_back({number, core / 4, core / 4, core});
  }
  return result;
}

TEST(CpuParts, CutByNumber) {
  const auto two = cpu_parts::equally(two_nodes(), 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].processors, (Numbers{0, 1, 2, 3, 8, 9, 10, 11}));  // a node, threads of a core together
  EXPECT_EQ(two[1].processors, (Numbers{4, 5, 6, 7, 12, 13, 14, 15}));
  EXPECT_EQ(two[1].index, 1u);
  EXPECT_EQ(two[1].count, 2u);
  EXPECT_EQ(two[1].node, -1);
  const auto eight = cpu_parts::equally(two_nodes(), 8);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(eight[i].processors, (Numbers{i, i + 8}));
  std::vector<int> seen(16);
  size_t least = 16, most = 0;
  for (const Part& part : cpu_parts::equally(two_nodes(), 5)) {
    least = std::min(least, part.processors.size()), most = std::max(most, part.processors.size());
    for (const int each : part.processors) ++seen[each];
  }
  EXPECT_EQ(seen, std::vector<int>(16, 1));
  EXPECT_LE(most, least + 1);
}

TEST(CpuParts, MorePartsThanProcessors) {
  const auto parts = cpu_parts::equally({{3, 0, 0, 0}, {5, 0, 0, 1}}, 4);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0].processors, Numbers{3});
  EXPECT_EQ(parts[1].processors, Numbers{3});
  EXPECT_EQ(parts[2].processors, Numbers{5});
  EXPECT_EQ(parts[3].processors, Numbers{5});
  const auto unnumbered = cpu_parts::equally({}, 2);
  ASSERT_EQ(unnumbered.size(), 2u);
  EXPECT_TRUE(unnumbered[0].processors.empty());
}

TEST(CpuParts, CutByNode) {
  auto processors = two_nodes();
  processors.erase(processors.begin(), processors.begin() + 3);  // the process may not use them
  const auto parts = cpu_parts::by_node(processors);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].processors, (Numbers{3, 8, 9, 10, 11}));
  EXPECT_EQ(parts[0].node, 0);
  EXPECT_EQ(parts[1].node, 1);
  EXPECT_EQ(parts[1].count, 2u);
}

TEST(CpuParts, ReadsTheSystem) {
  const auto root = std::filesystem::path(testing::TempDir()) / ("cpu_parts" + std::to_string(std::random_device()()));
  const auto write = [&](const std::string& name, const std::string& text) {
    const auto path = root / "sys/devices/system" / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  };
  write("node/node0/cpulist", "0,2");
  write("node/node1/cpulist", "1,3");
  write("node/possible", "0-1");
  for (int i = 0; i < 4; ++i) {
    const std::string folder = "cpu/cpu" + std::to_string(i) + "/topology/";
    write(folder + "physical_package_id", std::to_string(i % 2));
    write(folder + "core_id", std::to_string(i / 2));
  }
  const auto found = cpu_parts::describe({0, 1, 3}, root.string());
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[2].number, 3);
  EXPECT_EQ(found[2].node, 1);
  EXPECT_EQ(found[2].package, 1);
  EXPECT_EQ(found[2].core, 1);
  const auto parts = cpu_parts::by_node(found);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1].processors, (Numbers{1, 3}));
  std::filesystem::remove_all(root);
  const auto nothing = cpu_parts::describe({4, 6}, root.string());
  ASSERT_EQ(nothing.size(), 2u);
  EXPECT_EQ(nothing[1].node, 0);
  EXPECT_EQ(nothing[1].core, 6);
}

processors::Facts machine(unsigned count) {
  processors::Facts facts;
  facts.machine = facts.allowed = count;
  return facts;
}

unsigned threads(const processors::Facts& facts, const Part& part) {
  return processors::decide(cpu_parts::facts_of(facts, part)).threads;
}

TEST(CpuParts, ThreadsAreShares) {
  const auto parts = cpu_parts::equally(two_nodes(), 2);
  processors::Facts facts = machine(16);
  EXPECT_EQ(threads(facts, parts[0]), 8u);
  facts.quota = 5;
  EXPECT_EQ(threads(facts, parts[0]), 3u);  // 2.5, rounded as ever
  facts.openmp = 3;
  EXPECT_EQ(threads(facts, parts[0]), 1u);
  EXPECT_EQ(threads(facts, parts[1]), 2u);
  facts.asked = 5;
  EXPECT_EQ(threads(facts, parts[0]) + threads(facts, parts[1]), 5u);
  facts.asked = 0;
  EXPECT_EQ(threads(facts, parts[1]), 0u);
}

TEST(CpuParts, OneRankForEachPart) {
  const auto parts = cpu_parts::equally(two_nodes(), 2);
  processors::Facts facts = machine(16);
  facts.ranks = 2, facts.openmp = 1, facts.torchrun = true;  // torchrun's own OMP_NUM_THREADS
  for (unsigned rank = 0; rank < 2; ++rank) {
    facts.rank = rank;
    EXPECT_EQ(threads(facts, parts[rank]), 8u);
    EXPECT_EQ(threads(facts, parts[1 - rank]), 8u);  // whatever it uses it for
  }
  facts.ranks = 5;  // three on the first part, two on the second
  unsigned sum = 0;
  for (facts.rank = 0; facts.rank < 5; ++facts.rank) sum += threads(facts, parts[facts.rank % 2]);
  EXPECT_EQ(sum, 16u);
}

}  // namespace
}  // namespace ocl
