#include "support.h"

#include "opencl/capabilities/bfloat16_pairs.h"
#include "opencl/capabilities/float_atomics.h"
#include "opencl/capabilities/prefetch.h"
#include "opencl/program/program_cache.h"
#include "opencl/program/ptx_target.h"
#include "opencl/capabilities/selftest.h"

#if !defined(_WIN32)
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <thread>

using namespace ocl;
using namespace ocl::testing;

namespace {

class KeepPrograms : public ::testing::Environment {
  void TearDown() override { program_cache::write_postponed(1); }
};
[[maybe_unused]] auto* const keep_programs = ::testing::AddGlobalTestEnvironment(new KeepPrograms);

// Tests run in several processes at once.
std::string lock_path() { return program_cache::folder() + "/locks/test-" + std::to_string(os::process_id()); }

}  // namespace

TEST(Device, IsFound) {
  ASSERT_GE(Device::count(), 1);
  EXPECT_FALSE(device().capabilities().name.empty());
  EXPECT_THROW(Device::get(Device::count()), InvalidDevice);
}

TEST(Memory, AddressesInsideASegmentAreLocated) {
  Workspace memory(queue(), 4096);
  char* base = static_cast<char*>(memory.data());
  const Location start = locate(base), inside = locate(base + 100);
  EXPECT_EQ(start.buffer, inside.buffer);
  EXPECT_EQ(start.offset + 100, inside.offset);
  EXPECT_GE(start.offset, slack_bytes);
  int on_stack = 0;
  EXPECT_THROW(locate(&on_stack), InvalidArgument);
  EXPECT_EQ(locate(nullptr).buffer, nullptr);
}

TEST(Queue, CopiesAndFills) {
  Array<float> x(random_values<float>(1000)), y(1000);
  queue().copy(y.data(), x.data(), 4000);
  EXPECT_EQ(x.host(), y.host());
  const float value = 2.5f;
  queue().fill(y.data() + 10, &value, 4, 40);
  auto host = y.host();
  EXPECT_EQ(host[10], 2.5f);
  EXPECT_EQ(host[19], 2.5f);
  EXPECT_EQ(host[20], x.host()[20]);
}

TEST(Launch, RunsAKernelAtAnOffset) {
  Array<int> x(std::vector<int>{1, 2, 3, 4});
  launch(queue(), get_kernel(device(), "selftest/selftest.cl", "add_one", Defines()), Range(2), Range(), x.data() + 1,
         int32_t{2});
  EXPECT_EQ(x.host(), (std::vector<int>{1, 3, 4, 4}));
}

// Compilers may load before they test (HAS in common/memory.clh): no enqueued kernel gets a null buffer, whatever the
// launch before it had.
TEST(Launch, AbsentTensorsHaveAnAddressAndAreTold) {
  const std::string source =
      "#include \"common/memory.clh\"\n"
      "kernel void optional(global const int* first, global int* y, global const int* last) {\n"
      "  y[0] = HAS(first) ? first[0] : -1;\n"
      "  y[1] = HAS(last) ? last[0] : -1;\n"
      "  y[2] = first && last;\n"
      "}\n";
  Kernel& kernel = get_kernel_from_source(device(), "optional", source);
  Array<int> x(std::vector<int>{5, 6, 7, 8}), y(3);
  const int* const absent = nullptr;
  const auto results = [&](const int* first, const int* last) {
    launch(queue(), kernel, Range(1), Range(), first, y.data(), last);
    return y.host();
  };
  EXPECT_EQ(results(absent, absent), (std::vector<int>{-1, -1, 1}));
  EXPECT_EQ(results(x.data() + 1, absent), (std::vector<int>{6, -1, 1}));
  EXPECT_EQ(results(absent, x.data() + 2), (std::vector<int>{-1, 7, 1}));
  EXPECT_EQ(results(x.data(), x.data() + 3), (std::vector<int>{5, 8, 1}));
}

// Short commands may be executed by the caller when nothing is pending, long ones go to the driver: what they do must
// not depend on it. The elements that all commands change come last in the long ones.
TEST(Queue, ShortAndLongCommandsKeepTheirOrder) {
  const std::string source =
      "#include \"common/memory.clh\"\n"
      "kernel void advance(global uint* x, int n, int times, uint a) {\n"
      "  for (int i = n - 1 - (int)get_group_id(0); i >= 0; i -= (int)get_num_groups(0))\n"
      "    for (int t = 0; t < times; ++t) x[i] = x[i] * 5 + a;\n"
      "}\n";
  Kernel& kernel = get_kernel_from_source(device(), "advance", source);
  constexpr size_t n = 1 << 16, few = 64;
  std::vector<uint32_t> expected(n), pattern(few);
  for (size_t i = 0; i < few; ++i) pattern[i] = static_cast<uint32_t>(i * i);
  Array<uint32_t> x(expected), other(pattern);
  std::mt19937 engine(3);
  uint32_t a = 0;
  const auto step = [&](size_t count, int32_t times, size_t groups) {
    launch(queue(), kernel, Range(groups), Range(1), x.data(), static_cast<int32_t>(count), times, ++a);
    for (size_t i = 0; i < count; ++i)
      for (int t = 0; t < times; ++t) expected[i] = expected[i] * 5 + a;
  };
  for (int round = 0; round < 300; ++round) {
    const uint32_t value = static_cast<uint32_t>(round);
    switch (engine() % 6) {
      case 0: step(n, 40, 64); break;
      case 1: step(few, 1, 1); break;
      case 2: step(few, 2, 4); break;
      case 3:
        queue().fill(x.data() + 3, &value, 4, 20);
        std::fill(expected.begin() + 3, expected.begin() + 8, value);
        break;
      case 4:
        queue().copy(x.data() + 1, other.data(), few * 4);
        std::copy(pattern.begin(), pattern.end(), expected.begin() + 1);
        break;
      default: queue().finish();
    }
  }
  EXPECT_EQ(x.host(), expected);
}

TEST(Launch, RefusesMemoryOfOthers) {
  int on_stack = 0;
  try {
    launch(queue(), get_kernel(device(), "selftest/selftest.cl", "add_one", Defines()), Range(1), Range(), &on_stack,
           int32_t{1});
    FAIL() << "it ran";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what())
                  .find("found at least two devices, ocl:0 and cpu! (argument 0 of the OpenCL kernel add_one)"),
              std::string::npos)
        << error.what();
  }
}

TEST(Queue, IsIdleWhenEverythingHasEnded) {
  Queue& other = device().pooled_queue();
  other.finish();
  EXPECT_TRUE(other.idle());
  Array<int> x(std::vector<int>(64, 0));
  for (int i = 0; i < 50; ++i)
    launch(other, get_kernel(device(), "selftest/selftest.cl", "add_one", Defines()), Range(1), Range(), x.data(),
           int32_t{64});
  while (!other.idle()) std::this_thread::yield();
  EXPECT_EQ(x.host()[63], 50);  // idle meant that all had ended
  EXPECT_TRUE(other.idle());
}

TEST(Queue, ACommandWithoutMemoryIsOutOfMemory) {
  auto refuse = [](cl_event*) { return CL_MEM_OBJECT_ALLOCATION_FAILURE; };
  try {
    queue().command({Command::Kind::kernel, "big"}, "clEnqueueNDRangeKernel", refuse);
    FAIL() << "no error";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("clEnqueueNDRangeKernel(big) failed"), std::string::npos) << error.what();
  }
}

TEST(Queue, TheObserverSeesEveryCommand) {
  struct Seen {
    std::string name;
    size_t bytes;
    Event event;
  };
  static std::vector<Seen> seen;
  seen.clear();
  Array<int> x(std::vector<int>{1, 2, 3, 4}), y(4);
  set_command_observer([](Queue&, const Command& command, int64_t issued, Event event) {
    EXPECT_LE(issued, epoch_time());
    seen.push_back({command.name, command.bytes, std::move(event)});
  });
  launch(queue(), get_kernel(device(), "selftest/selftest.cl", "add_one", Defines()), Range(1), Range(), x.data(),
         int32_t{4});
  queue().copy(y.data(), x.data(), 16);
  set_command_observer(nullptr);
  queue().copy(y.data(), x.data(), 16);
  queue().finish();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].name, "add_one");
  EXPECT_EQ(seen[1].name, "Memcpy DtoD");
  EXPECT_EQ(seen[1].bytes, 16u);
  const auto kernel = seen[0].event.times(), copy = seen[1].event.times();
  EXPECT_LE(kernel.first, kernel.second);
  EXPECT_LE(kernel.second, copy.second);
}

TEST(Program, FromSourceMayIncludeTheLibrarysFiles) {
  const std::string source =
      "#include \"common/memory.clh\"\nkernel void set(global int* y, int v) { y[get_global_id(0)] = MIN_OF(v, "
      "9); }\n";
  Array<int> y(3);
  Kernel& kernel = get_kernel_from_source(device(), "set", source);
  launch(queue(), kernel, Range(3), Range(), y.data(), int32_t{7});
  EXPECT_EQ(y.host(), (std::vector<int>{7, 7, 7}));
  const BuildCounts before = build_counts();
  EXPECT_EQ(&get_kernel_from_source(device(), "set", source), &kernel);
  EXPECT_EQ(build_counts().built + build_counts().loaded, before.built + before.loaded);
}

TEST(Program, BuildErrorCarriesLogAndSourcePath) {
  Defines broken;
  broken.text("this is not OpenCL C");
  try {
    get_kernel(device(), "selftest/selftest.cl", "add_one", broken, BuildTime::at_once);
    FAIL() << "it compiled";
  } catch (const BuildError& error) {
    const std::string text = error.what(), mark = "source: ";
    const size_t begin = text.find(mark);
    ASSERT_NE(begin, std::string::npos) << text;
    const std::filesystem::path path = text.substr(begin + mark.size(), text.find('\n', begin) - begin - mark.size());
    EXPECT_TRUE(path.is_absolute() && std::filesystem::exists(path)) << text;
  }
}

TEST(PtxTarget, TheTextNamesItAndOpensItsComments) {
  EXPECT_EQ(ptx_target("#define A 1\n#define PTX_TARGET sm_90a\n#define B 2\n"), "sm_90a");
  EXPECT_EQ(ptx_target("#define TARGET sm_90a\n"), "");
  const std::string ptx =
      ".version 9.0\n.target sm_90, texmode_independent\n//sm_90a: one;\n// two\n//sm_90: three;\n//sm_90a: {four; "
      "//sm_90a: five;}\n";
  EXPECT_EQ(retargeted(ptx, "sm_90a"),
            ".version 9.0\n.target sm_90a, texmode_independent\none;\n// two\n//sm_90: three;\n{four; five;}\n");
  EXPECT_EQ(retargeted("\x7f"
                       "ELF",
                       "sm_90a"),
            "");
}

TEST(ProgramCache, KnowsWhatTheDriverIsToldToCompileFor) {
  const auto key = [] { return program_cache::key(device(), "-w", "source"); };
  const char* name = "CL_CONFIG_CPU_TARGET_ARCH";
  const char* found = std::getenv(name);
  const std::string before = key(), value = found ? found : "";
  os::set_environment(name, "another");
  EXPECT_NE(key(), before);
  os::set_environment(name, found ? value.c_str() : nullptr);
  EXPECT_EQ(key(), before);
}

TEST(ProgramCache, IgnoresDamagedFiles) {
  std::vector<unsigned char> data(100, 7);
  program_cache::write("test-key", data);
  ASSERT_EQ(program_cache::read("test-key"), data);
  const std::string path = program_cache::folder() + "/programs/test-key.bin";
  for (const uintmax_t size : {0, 3, 20, 60, 123}) {
    program_cache::write("test-key", data);
    std::filesystem::resize_file(path, size);
    EXPECT_FALSE(program_cache::read("test-key")) << size;
  }
  program_cache::write("test-key", data);
  FILE* file = std::fopen(path.c_str(), "r+b");
  std::fseek(file, 60, SEEK_SET);
  std::fputc(8, file);
  std::fclose(file);
  EXPECT_FALSE(program_cache::read("test-key"));
  program_cache::remove("test-key");
  EXPECT_FALSE(program_cache::read("test-key"));
}

TEST(FileLock, HoldsAndLetsGo) {
  const std::string path = lock_path();
  std::thread other;
  {
    const os::FileLock first(path, 1);
    ASSERT_TRUE(first.held());
    EXPECT_FALSE(first.waited());
    const os::FileLock impatient(path, 0.01);
    EXPECT_FALSE(impatient.held());
    EXPECT_TRUE(impatient.waited());
    other = std::thread([&] {
      const os::FileLock patient(path, 60);
      EXPECT_TRUE(patient.held());
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  other.join();
  const os::FileLock again(path, 0);
  EXPECT_TRUE(again.held());
  EXPECT_FALSE(again.waited());
  const os::FileLock nowhere(path + "/in/a/file", 1);
  EXPECT_FALSE(nowhere.held());
  std::filesystem::remove(path);
}

#if !defined(_WIN32)
TEST(FileLock, ForkedChildDoesNotProlongIt) {
  const std::string path = lock_path();
  pid_t child = 0;
  {
    const os::FileLock lock(path, 1);
    ASSERT_TRUE(lock.held());
    child = fork();
    if (child == 0) {
      pause();  // with a copy of the descriptor
      _exit(0);
    }
  }
  EXPECT_TRUE(os::FileLock(path, 0).held());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  std::filesystem::remove(path);
}
#endif

TEST(CachingAllocator, ReusesSplitsAndMerges) {
  CachingAllocator& allocator = device().allocator();
  void* a = allocator.allocate(1000, queue());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 512, 0u);
  allocator.free(a);
  void* b = allocator.allocate(900, queue());
  EXPECT_EQ(a, b);
  allocator.free(b);
  EXPECT_EQ(allocator.allocate(0, queue()), nullptr);
  const auto before = allocator.statistics();
  std::vector<void*> blocks;
  for (int i = 0; i < 200; ++i) blocks.push_back(allocator.allocate(size_t(1) << (9 + i % 14), queue()));
  for (void* block : blocks) allocator.free(block);
  const auto after = allocator.statistics();
  EXPECT_EQ(before.allocated_bytes[0].current, after.allocated_bytes[0].current);
  EXPECT_EQ(before.allocation[0].current, after.allocation[0].current);
}

TEST(CachingAllocator, OutOfMemoryReportsAndRecovers) {
  CachingAllocator& allocator = device().allocator();
  const auto before = allocator.statistics();
  EXPECT_THROW(allocator.allocate(size_t(1) << 50, queue()), OutOfMemory);
  EXPECT_EQ(allocator.statistics().out_of_memory, before.out_of_memory + 1);
  void* p = allocator.allocate(100, queue());
  EXPECT_NE(p, nullptr);
  allocator.free(p);
}

TEST(KernelSite, IsSafeFromManyThreads) {
  static KernelSite site("selftest/selftest.cl", "add_one");
  Array<int> x(std::vector<int>(8, 0));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        launch(queue(), site.get(device(), i % 3, [&] { return Defines().add("UNUSED", i % 3); }), Range(1), Range(),
               x.data() + t, int32_t{1});
    });
  for (auto& thread : threads) thread.join();
  auto host = x.host();
  for (int t = 0; t < 4; ++t) EXPECT_EQ(host[t], 50);
}

TEST(FloatAtomics, AddRightInEveryWayOfTheDevice) {
  EXPECT_TRUE(adds_right(device(), FloatAtomics::compare_and_swap));
  EXPECT_TRUE(adds_right(device(), float_atomics(device())));
}

// Hints are for processors only; where they are taken, the self-test has run them.
TEST(Prefetch, OnlyInCpuStyle) {
  EXPECT_TRUE(device().cpu_style() || !has_prefetch(device()));
  Defines defines;
  add_prefetch_define(defines, device());
  EXPECT_NE(defines.str().find(has_prefetch(device()) ? "PREFETCH 1" : "PREFETCH 0"), std::string::npos)
      << defines.str();
}

// What is timed must be the products: sums of 12 chains of 10 rounds.
TEST(Bfloat16Pairs, TimedLoopsAddProducts) {
  if (!has_bfloat16_pairs(device())) GTEST_SKIP() << "no products of bfloat16 in kernels of this device";
  const float pair = std::bit_cast<float>(uint32_t{0x3f803f80});  // (1, 1), or the number 1.0038
  for (int32_t pairs : {0, 1}) {
    float data[48] = {};
    std::fill_n(data, 16, pair);
    data[16] = std::bit_cast<float>(int32_t{10});
    data[17] = std::bit_cast<float>(pairs);
    const auto seconds =
        run_selftest(device(), "selftest/bfloat16.cpu.cl", "repeat_products", Defines(), Range(1), data, sizeof data);
    ASSERT_TRUE(seconds.has_value());
    EXPECT_GT(*seconds, 0);
    for (int i = 32; i < 48; ++i) EXPECT_NEAR(data[i], 12 * (pair + 10 * (pairs ? 2 : pair * pair)), 1e-4);
  }
  const double gain = bfloat16_pairs_gain(device(), 64);
  EXPECT_TRUE(gain > 0 && std::isfinite(gain));
}
