// Launching a kernel: launch(queue, kernel, global, local, arguments...).
#pragma once

#include "opencl/memory/segment.h"
#include "opencl/program/program.h"

#include <array>
#include <type_traits>
#include <vector>

namespace ocl {

// Up to three dimensions of work-items. Empty local range: the driver chooses.
struct Range {
  std::array<size_t, 3> size{1, 1, 1};
  unsigned dimensions = 0;
  constexpr Range() = default;
  constexpr Range(size_t x) : size{x, 1, 1}, dimensions(1) {}
  constexpr Range(size_t x, size_t y) : size{x, y, 1}, dimensions(2) {}
  constexpr Range(size_t x, size_t y, size_t z) : size{x, y, z}, dimensions(3) {}
};

// __local memory of this many bytes as an argument.
struct LocalMemory {
  size_t bytes;
};

// The seed of Philox's random numbers as an argument. The next argument must be the first counter, an uint64_t. Marks
// both for the replays of a graph, which have numbers of their own (command_list.h).
struct RandomSeed {
  uint64_t value = 0;
  RandomSeed() = default;
  RandomSeed(uint64_t value) : value(value) {}
  operator uint64_t() const { return value; }
};

// The arguments of one launch, recorded in order. Must be destroyed in LIFO order per thread.
class Arguments {
 public:
  explicit Arguments(Kernel& kernel);
  // A copy of what data() and bytes() of another launch of the kernel were.
  Arguments(Kernel& kernel, const void* data, size_t bytes);
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Kernel& kernel() const { return kernel_; }

  // A pointer is a device address and becomes two kernel arguments, the buffer (by its address where the device takes
  // those, Device::takes_addresses) and the byte offset (macro TENSOR in common/memory.clh); LocalMemory is __local
  // memory; anything else is passed as it is. Errors: PyTorch's "Expected all tensors to be on the same device" when an
  // address is not memory of the kernel's device. A null pointer is an absent tensor: the offset is `absent`, which
  // kernels test (HAS in common/memory.clh), and the buffer another one of the launch (null where kernels are called).
  template <class T>
  void add(const T& argument) {
    if constexpr (std::is_pointer_v<T>) {
      add_memory(argument);
    } else if constexpr (std::is_same_v<T, LocalMemory>) {
      add_local(argument.bytes);
    } else if constexpr (std::is_same_v<T, RandomSeed>) {
      record_.random = record_.used;
      add_value(&argument.value, sizeof argument.value);
    } else {
      static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>,
                    "pass int, long, float, double or a plain struct");
      add_value(&argument, sizeof(T));
    }
  }
  void add_value(const void* value, size_t bytes) { add(Kind::value, value, bytes); }
  // Host memory that the device reads at this address.
  void add_address(const void* address) { add(Kind::address, static_cast<const void*>(&address), sizeof(address)); }

  const void* data() const { return record_.memory.data(); }
  size_t bytes() const { return record_.used; }
  // Where in data() a RandomSeed lies, or no_random.
  static constexpr size_t no_random = ~size_t{0};
  size_t random() const { return record_.random; }
  uint64_t random_seed() const;
  // Other random numbers, `at` being random() of the launch that this is a copy of.
  void replace_random(size_t at, uint64_t seed, uint64_t first);
  // Sets what data() and bytes() were on the kernel, as far as the last launch had other values; returns the first
  // error code and the argument's index. The caller has the kernel for itself.
  static cl_int set(Kernel& kernel, const void* data, size_t bytes, unsigned& index);

  static constexpr cl_ulong absent = cl_ulong{1} << 63;

  // The same for a kernel that is called as a function: values one behind the other, each at the next multiple of
  // `slot` bytes, as far as there is room. Returns the bytes of all.
  static constexpr size_t slot = 16;
  static size_t pack(const void* data, size_t bytes, void* to, size_t room);

 private:
  enum class Kind : uint32_t {
    value,
    buffer,
    address,
    nothing,
    local
  };  // no value follows the last two: no buffer, and local memory
  struct Head {
    Kind kind;
    uint32_t bytes;
  };
  // An argument in the record, `length` bytes of it.
  struct Value {
    Head head;
    const char* value;
    size_t length;
  };
  static Value value_at(const char* record);
  static Value stand_in(const char* record, size_t bytes);
  void add(Kind kind, const void* value, size_t bytes);
  void add_memory(const void* address);
  void add_local(size_t bytes);

  // Heads, each followed by the value.
  struct Record {
    std::vector<char> memory;  // keeps its size
    size_t used = 0, local_bytes = 0, random = no_random;
  };
  struct Records;

  Kernel& kernel_;
  unsigned count_ = 0;
  Record& record_;
};

// What an error of an argument's is reported as.
std::string argument_text(const Kernel& kernel, unsigned index);

// `fusion`: how this launch is fused with others behind it, on devices with executor().
void enqueue(Queue& queue, const Arguments& arguments, const Range& global, const Range& local,
             const Fusion& fusion = {});

// Enqueues the kernel with these arguments (Arguments::add): numbers must have exactly the width of the kernel's
// parameter (int32_t for int, int64_t for long). A range with a zero size does nothing. `global` must be a multiple of
// `local`.
template <class... Values>
void launch(Queue& queue, Kernel& kernel, const Range& global, const Range& local, const Values&... values) {
  if (global.size[0] == 0 || global.size[1] == 0 || global.size[2] == 0) return;
  Arguments arguments(kernel);
  (arguments.add(values), ...);
  enqueue(queue, arguments, global, local);
}

}  // namespace ocl
