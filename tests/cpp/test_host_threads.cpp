// Launches in pieces on threads of the process (opencl/host_threads.h, opencl/host_launch.h). The kernels run on every device: there the same
// must hold without pieces.
#include "support.h"

#include "opencl/host_threads.h"

#include <thread>

namespace ocl::testing {
namespace {

struct Counted {
  std::vector<std::atomic<int>> visits;
  explicit Counted(size_t units) : visits(units) {}
  static int32_t piece(void* self, unsigned, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) ++static_cast<Counted*>(self)->visits[i];
    return 0;
  }
  bool each_once() const {
    return std::all_of(visits.begin(), visits.end(), [](const std::atomic<int>& n) { return n == 1; });
  }
};

TEST(HostThreads, EveryUnitRunsOnce) {
  for (const uint32_t units : {0u, 1u, 2u, 3u, 7u, 64u, 1000u, 100000u})
    for (const float expected : {0.0f, 1.0f, 1e4f, 1e9f}) {
      Counted counted(units);
      std::atomic<float> unit_time{expected};
      EXPECT_EQ(HostThreads::instance().run(units, unit_time, &Counted::piece, &counted), 0);
      EXPECT_TRUE(counted.each_once()) << units << " units, " << expected << " ns expected";
    }
}

TEST(HostThreads, SeveralCallersAtOnce) {
  std::atomic<int> failures{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      std::atomic<float> unit_time{1e5f};  // long enough to be shared
      for (int i = 0; i < 500; ++i) {
        Counted counted(37);
        if (HostThreads::instance().run(37, unit_time, &Counted::piece, &counted) != 0 || !counted.each_once()) ++failures;
        unit_time = 1e5f;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(failures, 0);
}

TEST(HostThreads, AnErrorIsReturnedAndTheRestStillRuns) {
  struct Failing {
    Counted counted{100};
    static int32_t piece(void* self, unsigned member, uint32_t begin, uint32_t end) {
      Counted::piece(&static_cast<Failing*>(self)->counted, member, begin, end);
      return begin <= 50 && 50 < end ? -5 : 0;
    }
  } failing;
  std::atomic<float> unit_time{1e6f};
  EXPECT_EQ(HostThreads::instance().run(100, unit_time, &Failing::piece, &failing), -5);
  EXPECT_TRUE(failing.counted.each_once());
}

// 1 for every work-item whose functions agree with each other and with the sizes of the launch.
const char* const identities = R"(
#include "common/memory.clh"
__kernel void identities(TENSOR(int, y), long sx, long sy, long sz) {
  OPEN(int, y);
  const size_t size[3] = {sx, sy, sz};
  int wrong = 0;
  for (uint d = 0; d < 3; d++) {
    wrong += get_global_size(d) != size[d] || get_num_groups(d) * get_local_size(d) != size[d] || get_global_offset(d) != 0;
    wrong += get_group_id(d) * get_local_size(d) + get_local_id(d) != get_global_id(d) || get_group_id(d) >= get_num_groups(d);
  }
  y[get_global_id(0) + sx * (get_global_id(1) + sy * get_global_id(2))] += wrong ? 100000 : 1;
}
)";

TEST(HostLaunch, KernelsSeeTheWholeLaunch) {
  struct Case {
    Range global, local;
  };
  const Case cases[] = {{Range(1), Range(1)},          {Range(7), Range(1)},           {Range(1000), Range(1)},      {Range(1000), Range()},
                        {Range(4096), Range(64)},      {Range(40000), Range(1)},       {Range(70000), Range(1)},     {Range(70001), Range()},
                        {Range(3, 500), Range(1, 1)},  {Range(500, 3), Range(1, 1)},   {Range(64, 9, 5), Range(16, 3)}, {Range(2, 3, 200), Range(1, 1, 1)},
                        {Range(130, 70, 2), Range()},  {Range(2, 40000), Range(1, 1)}, {Range(size_t{1} << 22), Range(2)}, {Range(size_t{1} << 21), Range(1)}};
  Kernel& kernel = get_kernel_from_source(device(), "identities", identities);
  for (const auto& [global, local] : cases) {
    const auto [x, y, z] = global.size;
    Array<int> seen(x * y * z);
    queue().fill(seen.data(), "\0\0\0", 4, x * y * z * 4);
    for (int i = 0; i < 4; ++i) {
      kernel.group_time() = 1e5f;  // long enough to be cut however few groups there are
      launch(queue(), kernel, global, local, seen.data(), static_cast<int64_t>(x), static_cast<int64_t>(y), static_cast<int64_t>(z));
    }
    const std::vector<int> host = seen.host();
    EXPECT_TRUE(std::all_of(host.begin(), host.end(), [](int n) { return n == 4; })) << x << " x " << y << " x " << z;
  }
}

TEST(HostLaunch, CopiesAndFillsOfEverySize) {
  for (const size_t bytes : {size_t{1}, size_t{5}, size_t{4096}, size_t{65536}, size_t{131072}, size_t{1000003}}) {
    Array<char> from(bytes), to(bytes + 3);
    queue().fill(to.data(), "z", 1, bytes + 3);
    queue().fill(from.data(), "a", 1, bytes);
    if (bytes % 4 == 0) queue().fill(from.data(), "abcd", 4, bytes);
    queue().copy(to.data() + 1, from.data(), bytes);
    std::vector<char> expected(bytes, 'a');
    if (bytes % 4 == 0)
      for (size_t i = 0; i < bytes; ++i) expected[i] = "abcd"[i % 4];
    const std::vector<char> host = to.host();
    EXPECT_EQ(std::vector<char>(host.begin() + 1, host.begin() + 1 + static_cast<std::ptrdiff_t>(bytes)), expected) << bytes;
    EXPECT_EQ(host[0], 'z');
    EXPECT_EQ(host[bytes + 1], 'z');
  }
}

}  // namespace
}  // namespace ocl::testing
