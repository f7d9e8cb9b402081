#include "torch/runtime/generator.h"

#include "opencl/command_list.h"

#include <ATen/Utils.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <deque>
#include <mutex>

namespace ocl::runtime {

namespace {
constexpr size_t state_bytes = 2 * sizeof(uint64_t);
}

Generator::Generator(c10::DeviceIndex index)
    : c10::GeneratorImpl(c10::Device(device_type(), index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void Generator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

void Generator::set_offset(uint64_t offset) { offset_ = offset; }

uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom(true));
  return seed_;
}

void Generator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == static_cast<int64_t>(state_bytes), "RNG state is wrong size");
  uint64_t words[2];
  std::memcpy(words, state.data(), state_bytes);
  seed_ = words[0];
  offset_ = words[1];
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  at::Tensor state =
      at::empty({static_cast<int64_t>(state_bytes)}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  const uint64_t words[2] = {seed_, offset_};
  std::memcpy(state.mutable_data_ptr(), words, state_bytes);
  return state.getIntrusivePtr();
}

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

std::pair<uint64_t, uint64_t> Generator::next_philox(uint64_t increment) {
  const uint64_t first = offset_;
  offset_ += increment;
  return {seed_, first};
}

namespace {

// What a graph draws its numbers from, at every replay.
struct GeneratorSource final : RandomSource {
  explicit GeneratorSource(at::Generator from) : generator(std::move(from)) {}
  std::pair<uint64_t, uint64_t> reserve(uint64_t counters) override {
    auto* implementation = at::check_generator<Generator>(generator);
    std::lock_guard<std::mutex> lock(implementation->mutex_);
    return implementation->next_philox(counters);
  }
  at::Generator generator;
};

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* mutex = new std::mutex;
  static auto* generators = new std::deque<at::Generator>;
  if (index < 0) index = current_device();
  TORCH_CHECK(index < device_count(), "OCL error: invalid device ordinal ", static_cast<int>(index));
  std::lock_guard lock(*mutex);
  while (generators->size() <= static_cast<size_t>(index)) {
    auto generator = at::make_generator<Generator>(static_cast<c10::DeviceIndex>(generators->size()));
    generator.seed();
    generators->push_back(std::move(generator));
  }
  return (*generators)[static_cast<size_t>(index)];
}

std::pair<uint64_t, uint64_t> reserve_philox(const std::optional<at::Generator>& generator, c10::DeviceIndex index,
                                             uint64_t increment) {
  auto* implementation = at::get_generator_or_default<Generator>(generator, default_generator(index));
  if (CommandList* list = current_queue(index).capture()) [[unlikely]]
    return list->reserve_random(
        implementation,
        [&] {
          return std::make_unique<GeneratorSource>(generator && generator->defined() ? *generator
                                                                                     : default_generator(index));
        },
        increment);
  std::lock_guard<std::mutex> lock(implementation->mutex_);
  return implementation->next_philox(increment);
}

}  // namespace ocl::runtime
