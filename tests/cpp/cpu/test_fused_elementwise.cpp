// Operators that wait in the command queue are run together, with the bits of running each by itself
// (ops/elementwise/sequence.h).
#include "support.h"

#include "cpu/command_queue.h"
#include "cpu/cpu_executor.h"
#include "ops/elementwise/sequence.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

// While it lives, commands that are issued to the command queue wait; not for ever, should something be enqueued on the
// driver, which waits for them.
class Held {
 public:
  Held() {
    CommandQueue::instance().issue(0, [this](const void*) {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
      while (!go_ && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
      ended_ = true;
    });
  }
  ~Held() {
    go_ = true;
    while (!ended_) std::this_thread::yield();
  }

 private:
  std::atomic<bool> go_{false}, ended_{false};
};

bool device_fuses() {
  return device().cpu_style() && device().executor() && device().capabilities().unified_memory &&
         ThreadPool::instance().workers() > 1;
}

struct Row {
  const char* name;
  int scalars = 0;
};
const Row rows[] = {{"copy"},
                    {"fill", 1},
                    {"add"},
                    {"add_alpha", 1},
                    {"sub"},
                    {"mul"},
                    {"div"},
                    {"pow_2"},
                    {"pow_3"},
                    {"addcmul", 1},
                    {"abs"},
                    {"addcdiv", 1},
                    {"maximum"},
                    {"minimum"},
                    {"neg"},
                    {"sqrt"},
                    {"rsqrt"},
                    {"reciprocal"},
                    {"exp"},
                    {"tanh"},
                    {"sigmoid"},
                    {"silu"},
                    {"relu"},
                    {"clamp", 2},
                    {"clamp_min", 1},
                    {"clamp_max", 1},
                    {"lerp_scalar", 1},
                    {"floor"},
                    {"threshold_backward", 1},
                    {"sigmoid_backward"},
                    {"tanh_backward"}};
constexpr int arrays = 5;

// Calls that the same seed repeats, over arrays of n elements in `memory`, whole, shifted, and single elements of them.
class RandomCalls {
 public:
  RandomCalls(unsigned seed, void* memory, DType dtype, int64_t n)
      : engine_(seed), memory_(static_cast<char*>(memory)), dtype_(dtype), n_(n) {}
  static int64_t room(int64_t n) { return n + 64; }

  void issue() {
    const Row& picked = rows[any(std::size(rows))];
    const ElementwiseRow& row = elementwise_row(picked.name);
    ElementwiseCall call;
    call.dims = 1;
    call.sizes[0] = n_;
    call.output = operand(false);
    for (int k = 0; k < row.inputs; ++k) {
      ElementwiseCall::Operand& input = call.inputs[k];
      do input = operand(true);
      while (overlaps_in_part(input, call.output));
      if (input.data == call.output.data) input.strides[0] = 1;
    }
    call.scalars = picked.scalars;
    for (int k = 0; k < picked.scalars; ++k) call.scalar[k] = any(100) * 0.02 - 1;
    elementwise(queue(), row, call);
  }

 private:
  int any(int count) { return static_cast<int>(engine_() % static_cast<unsigned>(count)); }
  int64_t bytes() const { return static_cast<int64_t>(size_of(dtype_)); }

  ElementwiseCall::Operand operand(bool may_be_single) {
    ElementwiseCall::Operand result{
        memory_ + bytes() * (any(arrays) * room(n_) + (any(8) ? 0 : 16 * any(3))), dtype_, {1}, false, {}};
    if (may_be_single && any(6) == 0) result.strides[0] = 0;
    if (may_be_single && any(6) == 0) result.is_scalar = true, result.scalar = any(100) * 0.03;
    return result;
  }
  // An input is the output exactly or not at all.
  bool overlaps_in_part(const ElementwiseCall::Operand& input, const ElementwiseCall::Operand& output) const {
    const auto distance = static_cast<char*>(input.data) - static_cast<char*>(output.data);
    return !input.is_scalar && distance != 0 && std::abs(distance) < room(n_) * bytes();
  }

  std::mt19937 engine_;
  char* memory_;
  DType dtype_;
  int64_t n_;
};

// Between -2 and 2, as 16-bit pieces.
std::vector<uint16_t> random_start(DType dtype, int64_t elements, unsigned seed) {
  std::vector<uint16_t> start(static_cast<size_t>(elements) * size_of(dtype) / 2);
  if (dtype == DType::float32) {
    std::memcpy(start.data(), random_values<float>(static_cast<size_t>(elements), seed, -2, 2).data(),
                start.size() * 2);
  } else {
    std::mt19937 engine(seed);
    const unsigned one = dtype == DType::bfloat16 ? 0x3f80 : 0x3c00;
    for (uint16_t& bits : start) bits = static_cast<uint16_t>(one - engine() % 0x100 + (engine() % 2 << 15));
  }
  return start;
}

double finite_share(DType dtype, const std::vector<uint16_t>& bits) {
  const size_t step = size_of(dtype) / 2;  // the last of an element's pieces has the exponent
  const unsigned mask = dtype == DType::float16 ? 0x7c00 : 0x7f80;
  size_t finite = 0;
  for (size_t i = step - 1; i < bits.size(); i += step) finite += (bits[i] & mask) != mask;
  return static_cast<double>(finite * step) / static_cast<double>(bits.size());
}

// Another process compiles the program for several operators, while they run one by one: false where it has not been
// used after two minutes.
bool becomes_fused(DType dtype) {
  Array<uint16_t> memory(random_start(dtype, arrays * RandomCalls::room(1000), 1));
  RandomCalls calls(1, memory.data(), dtype, 1000);
  const uint64_t before = ElementwiseStep::fused_calls();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (ElementwiseStep::fused_calls() == before && std::chrono::steady_clock::now() < end) {
    {
      Held held;
      for (int i = 0; i < 9; ++i) calls.issue();
    }
    queue().finish();
  }
  return ElementwiseStep::fused_calls() != before;
}

}  // namespace

// The bits are those of running each operator by itself, NaN included, of which there are not too many.
TEST(FusedElementwise, GivesTheBitsOfSingleLaunches) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    if (device_fuses()) ASSERT_TRUE(becomes_fused(dtype)) << name_of(dtype);
    const uint64_t fused_before = ElementwiseStep::fused_calls();
    double finite = 0;
    int cases = 0;
    for (const int64_t n : {1, 7, 16, 1000, 1024, 1031, 40000, 100003})
      for (unsigned seed = 1; seed <= 8; ++seed, ++cases) {
        const auto start = random_start(dtype, arrays * RandomCalls::room(n), seed);
        Array<uint16_t> together(start), singly(start);
        RandomCalls waiting(seed, together.data(), dtype, n), alone(seed, singly.data(), dtype, n);
        for (int part = 0; part < 3; ++part) {
          {
            std::optional<Held> held;
            if (device_fuses()) held.emplace();
            for (int i = 0; i < 9; ++i) waiting.issue();
          }
          queue().finish();
          for (int i = 0; i < 9; ++i) alone.issue(), queue().finish();
        }
        EXPECT_EQ(together.host(), singly.host()) << name_of(dtype) << " n " << n << " seed " << seed;
        finite += finite_share(dtype, singly.host());
      }
    EXPECT_GT(finite / cases, 0.5) << name_of(dtype);
    if (device_fuses()) EXPECT_GT(ElementwiseStep::fused_calls() - fused_before, 300u) << name_of(dtype);
  }
}
