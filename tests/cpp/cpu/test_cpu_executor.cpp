// Launches in pieces on threads of the process (cpu/cpu_executor.h). The kernels run on every device: there the same
// must hold without pieces.
#include "support.h"

#include "cpu/cpu_executor.h"

#include <algorithm>

namespace ocl::testing {
namespace {

// 1 for every work-item whose functions agree with each other and with the sizes of the launch.
const char* const identities = R"(
#include "common/memory.clh"
__kernel void identities(global int* y, long sx, long sy, long sz) {
  const size_t size[3] = {sx, sy, sz};
  int wrong = 0;
  for (uint d = 0; d < 3; d++) {
    wrong += get_global_size(d) != size[d] || get_num_groups(d) * get_local_size(d) != size[d];
    wrong += get_global_offset(d) != 0;
    wrong += get_group_id(d) * get_local_size(d) + get_local_id(d) != get_global_id(d);
    wrong += get_group_id(d) >= get_num_groups(d);
  }
  y[get_global_id(0) + sx * (get_global_id(1) + sy * get_global_id(2))] += wrong ? 100000 : 1;
}
)";

TEST(CpuExecutor, KernelsSeeTheWholeLaunch) {
  struct Case {
    Range global, local;
  };
  const Case cases[] = {{Range(1), Range(1)},
                        {Range(7), Range(1)},
                        {Range(1000), Range(1)},
                        {Range(1000), Range()},
                        {Range(4096), Range(64)},
                        {Range(40000), Range(1)},
                        {Range(70000), Range(1)},
                        {Range(70001), Range()},
                        {Range(3, 500), Range(1, 1)},
                        {Range(500, 3), Range(1, 1)},
                        {Range(64, 9, 5), Range(16, 3)},
                        {Range(2, 3, 200), Range(1, 1, 1)},
                        {Range(7, 2), Range(1, 1)},
                        {Range(2, 13), Range(1, 1)},
                        {Range(4, 4, 4), Range(1, 1)},
                        {Range(48, 3, 5), Range(16, 1)},
                        {Range(5, 1, 3), Range(1, 1)},
                        {Range(1, 6, 5), Range(1, 2)},
                        {Range(1023, 9), Range(1, 1)},
                        {Range(1024, 3), Range(1, 1)},
                        {Range(130, 70, 2), Range()},
                        {Range(2, 40000), Range(1, 1)},
                        {Range(size_t{1} << 22), Range(2)},
                        {Range(size_t{1} << 21), Range(1)}};
  Kernel& kernel = get_kernel_from_source(device(), "identities", identities);
  for (const auto& [global, local] : cases) {
    const auto [x, y, z] = global.size;
    Array<int> seen(x * y * z);
    queue().fill(seen.data(), "\0\0\0", 4, x * y * z * 4);
    for (int i = 0; i < 4; ++i) {
      CpuExecutor::set_group_time(kernel, 1e5f);  // long enough to be cut however few groups there are
      launch(queue(), kernel, global, local, seen.data(), static_cast<int64_t>(x), static_cast<int64_t>(y),
             static_cast<int64_t>(z));
    }
    const std::vector<int> host = seen.host();
    EXPECT_TRUE(std::all_of(host.begin(), host.end(), [](int n) { return n == 4; })) << x << " x " << y << " x " << z;
  }
}

// Some kernels in turns after a program was compiled (without a kept binary) that has nearly as many as PoCL keeps
// loaded; then all of them.
TEST(CpuExecutor, MoreKernelsThanStayLoaded) {
  constexpr int count = 120, some = 60;
  std::string source;
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    source += "kernel __attribute__((reqd_work_group_size(1, 1, 1))) void mix" + number +
              "(global uint* y) {\n  uint v = y[get_global_id(0)];\n  for (int k = 0; k < 500; ++k) "
              "v = v * 1664525u + " +
              number + ";\n  y[get_global_id(0)] = v;\n}\n";
  }
  Array<uint32_t> y(400);
  queue().fill(y.data(), "\0\0\0", 4, 400 * 4);
  std::vector<uint32_t> expected(400);
  for (const auto& [last, longest] : {std::pair{some, 301}, {some, 301}, {some, 357}, {count, 321}, {some, 301}})
    for (int i = 0; i < last; ++i) {
      Kernel& kernel = get_kernel_from_source(device(), ("mix" + std::to_string(i)).c_str(), source);
      for (const int n : {longest, 90}) {
        CpuExecutor::set_group_time(kernel, 1e5f);  // long enough to be cut
        launch(queue(), kernel, Range(n), Range(1), y.data());
        for (int k = 0; k < n * 500; ++k) expected[k / 500] = expected[k / 500] * 1664525u + static_cast<uint32_t>(i);
      }
    }
  EXPECT_EQ(y.host(), expected);
}

TEST(CpuExecutor, ErrorsOfArgumentsComeWithTheNextWait) {
  if (!device().executor()) GTEST_SKIP() << "the driver checks arguments when they are set";
  Kernel& kernel = get_kernel_from_source(device(), "identities", identities);
  Array<int> y(8);
  launch(queue(), kernel, Range(8), Range(1), y.data(), int32_t{8}, int64_t{1}, int64_t{1});  // a long is wanted
  try {
    queue().finish();
    ADD_FAILURE() << "no error";
  } catch (const DriverError& error) {
    EXPECT_NE(std::string(error.what()).find("clSetKernelArg(identities, 2)"), std::string::npos) << error.what();
  }
  // Arguments are set again after an error, whatever was set before it.
  for (int i = 0; i < 2; ++i) {
    launch(queue(), kernel, Range(8), Range(1), y.data(), int64_t{8}, int64_t{1}, int64_t{1});
    EXPECT_NO_THROW(queue().finish());
    if (i == 0) launch(queue(), kernel, Range(8), Range(1), y.data(), int32_t{8}, int64_t{1}, int64_t{1});
    if (i == 0) EXPECT_THROW(queue().finish(), DriverError);
  }
  for (const auto& [global, local] : {std::pair{Range(8), Range(3)}, std::pair{Range(1 << 20), Range(1 << 20)}})
    EXPECT_THROW(launch(queue(), kernel, global, local, y.data(), int64_t{8}, int64_t{1}, int64_t{1}), DriverError);
}

TEST(CpuExecutor, CommandsOfOthersOnTheSameQueueKeepTheirPlace) {
  Queue& own = device().new_queue();
  Kernel& kernel = get_kernel_from_source(device(), "identities", identities);
  constexpr size_t n = 100000;
  Array<int> y(n);
  const auto add_one = [&] { launch(own, kernel, Range(n), Range(1), y.data(), int64_t{n}, int64_t{1}, int64_t{1}); };
  own.fill(y.data(), "\0\0\0", 4, n * sizeof(int));
  add_one();
  const cl_command_queue handle = own.share_handle();
  const Location location = locate(y.data());
  const int seven = 7;
  ASSERT_EQ(clEnqueueFillBuffer(handle, location.buffer, &seven, sizeof seven, location.offset, n * sizeof(int), 0,
                                nullptr, nullptr),
            CL_SUCCESS);
  own.issued();
  add_one();
  ASSERT_EQ(clEnqueueFillBuffer(handle, location.buffer, &seven, sizeof seven, location.offset, sizeof(int), 0, nullptr,
                                nullptr),
            CL_SUCCESS);
  own.issued();
  own.finish();
  const std::vector<int> host = y.host();
  EXPECT_EQ(host[0], 7);
  EXPECT_TRUE(std::all_of(host.begin() + 1, host.end(), [](int v) { return v == 8; }));
}

TEST(CpuExecutor, WritesAreKeptUntilTheirTurn) {
  Kernel& kernel = get_kernel_from_source(device(), "identities", identities);
  for (const size_t n : {size_t{10}, size_t{1000}, size_t{100000}}) {  // below and above what is kept
    Array<int> y(n);
    std::vector<int> value(n, 5);
    queue().write(y.data(), value.data(), n * sizeof(int));
    launch(queue(), kernel, Range(n), Range(1), y.data(), static_cast<int64_t>(n), int64_t{1}, int64_t{1});
    Array<int> copy(n);
    queue().copy(copy.data(), y.data(), n * sizeof(int));
    std::fill(value.begin(), value.end(), 50);  // the caller's from the moment that write() returns
    queue().write(y.data(), value.data(), n * sizeof(int));
    launch(queue(), kernel, Range(n), Range(1), y.data(), static_cast<int64_t>(n), int64_t{1}, int64_t{1});
    std::fill(value.begin(), value.end(), -1);
    const std::vector<int> first = copy.host(), second = y.host();
    EXPECT_TRUE(std::all_of(first.begin(), first.end(), [](int v) { return v == 6; })) << n;
    EXPECT_TRUE(std::all_of(second.begin(), second.end(), [](int v) { return v == 51; })) << n;
  }
}

TEST(CpuExecutor, EventsTellTheOrderOfTheirCommands) {
  Array<char> y(1 << 20);
  const Event before = queue().record();
  for (int i = 0; i < 20; ++i) queue().fill(y.data(), "a", 1, 1 << 20);
  const Event after = queue().record();
  after.wait();
  EXPECT_TRUE(before.complete());
  EXPECT_TRUE(after.complete());
  EXPECT_LT(before.end_time(), after.end_time());
  queue().finish();
  EXPECT_TRUE(queue().idle());
}

TEST(CpuExecutor, CopiesAndFillsOfEverySize) {
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
    EXPECT_EQ(std::vector<char>(host.begin() + 1, host.begin() + 1 + static_cast<std::ptrdiff_t>(bytes)), expected)
        << bytes;
    EXPECT_EQ(host[0], 'z');
    EXPECT_EQ(host[bytes + 1], 'z');
  }
}

}  // namespace
}  // namespace ocl::testing
