// Random state of a device: a Philox seed and offset, as on CUDA. Equal seeds give equal numbers on every OpenCL
// device.
#pragma once

#include "torch/runtime/device.h"

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <utility>

namespace ocl::runtime {

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index);

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  // State tensor: 16 bytes on the CPU, seed then offset, little endian.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // Reserves `increment` 128-bit Philox counters; the caller holds mutex_. Returns (seed, first counter).
  std::pair<uint64_t, uint64_t> next_philox(uint64_t increment);

 private:
  Generator* clone_impl() const override;
  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

// The device's default generator, created at first use; index -1: the current device.
const at::Generator& default_generator(c10::DeviceIndex index);

// The generator that was passed (checked to be of this device type) or the default one, with `increment` counters
// reserved.
std::pair<uint64_t, uint64_t> reserve_philox(const std::optional<at::Generator>& generator, c10::DeviceIndex index,
                                             uint64_t increment);

}  // namespace ocl::runtime
