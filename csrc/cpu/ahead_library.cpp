#include "cpu/ahead_library.h"

#include "base/environment.h"
#include "base/os.h"
#include "base/warning.h"
#include "cpu/cpu_executor.h"
#include "opencl/capabilities/bfloat16_pairs.h"
#include "opencl/capabilities/simulated.h"
#include "opencl/device.h"
#include "opencl/program/ahead.h"
#include "opencl/program/entry_points.h"
#include "opencl/program/program_cache.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ocl::ahead {

namespace {

struct Seal {
  char magic[8];
  uint64_t bytes, hash;
};
constexpr char magic[8] = {'O', 'C', 'L', 'A', 'H', 'E', 'A', 'D'};

std::vector<char> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<char> data(file ? static_cast<size_t>(file.tellg()) : 0);
  file.seekg(0);
  if (!data.empty()) file.read(data.data(), static_cast<std::streamsize>(data.size()));
  return data;
}

// Of whole words: megabytes are read at the first launch of every process.
uint64_t hash_of(const char* data, size_t bytes) {
  uint64_t hash = bytes;
  for (size_t at = 0; at < bytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, std::min<size_t>(8, bytes - at));
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return hash;
}

bool sealed(const std::vector<char>& data) {
  Seal seal;
  if (data.size() <= sizeof seal) return false;
  const size_t bytes = data.size() - sizeof seal;
  std::memcpy(&seal, data.data() + bytes, sizeof seal);
  return std::memcmp(seal.magic, magic, sizeof magic) == 0 && seal.bytes == bytes &&
         seal.hash == hash_of(data.data(), bytes);
}

}  // namespace

void seal(const std::string& path) {
  std::vector<char> data = contents(path);
  Seal seal;
  std::memcpy(seal.magic, magic, sizeof magic);
  seal.bytes = data.size(), seal.hash = hash_of(data.data(), data.size());
  std::ofstream file(path, std::ios::binary | std::ios::app);
  if (data.empty() || !file.write(reinterpret_cast<const char*>(&seal), sizeof seal).flush())
    throw std::runtime_error(path + " cannot be sealed");
}

bool runs(const Level& level) {
#if defined(__x86_64__) && defined(__linux__)
  __builtin_cpu_init();
  const bool three = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                     __builtin_cpu_supports("bmi2");
  if (level.narrow_registers) return three;
  return three && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  (void)level;
  return false;
#endif
}

std::string text(const Level& level, const std::string& program) {
  static const std::string opencl = expanded_source("ahead/opencl.clh");
  return opencl + "#define DEVICE_FP64 1\n#define CPU_STYLE 1\n#define NARROW_REGISTERS " +
         (level.narrow_registers ? "1\n" : "0\n") + kernel_function::source() +
         write_entry_points(program, FunctionForm::symbol).source;
}

std::string key(const std::string& text) {
  const std::string parts[] = {std::to_string(format), text};
  return program_cache::hash(parts);
}

static std::string symbol_begin(const std::string& key) { return "ocl_" + key + "_"; }

std::string name_line(const std::string& key) {
  return "#define AHEAD_NAME(name) \"" + symbol_begin(key) + "\" name\n";
}

Library::Library(const std::string& path) : path_(path) {
  if (!sealed(contents(path))) {
    problem_ = "it is damaged, or was changed since it was built";
    return;
  }
  handle_ = os::load_library(path, problem_);
  if (!handle_ && problem_.empty()) problem_ = "the system does not load it";
  // As of PoCL's loaded code (os.h).
  if (handle_) os::touch_constants(path.substr(path.rfind('/') + 1));
}

KernelFunction Library::find(const std::string& key, const std::string& kernel) const {
  if (!handle_) return nullptr;
  return reinterpret_cast<KernelFunction>(os::symbol(handle_, (symbol_begin(key) + kernel).c_str()));
}

namespace {

// The library of a level in this process; null where there is none that can be used.
class Libraries {
 public:
  const Library* get(const Level& level) {
    std::lock_guard lock(mutex_);
    Entry& entry = entries_[&level - levels.data()];
    if (!std::exchange(entry.asked, true)) {
      const std::string file = std::string("libocl_ahead_") + level.name + ".so";
      const std::string path = os::file_beside_library(file.c_str());
      if (!path.empty() && runs(level)) entry.library = std::make_unique<Library>(path);
      if (entry.library && !entry.library->problem().empty())
        warn("the kernels that were compiled ahead of time are not used, the driver compiles them: " + path + ": " +
             entry.library->problem());
    }
    return entry.library && entry.library->problem().empty() ? entry.library.get() : nullptr;
  }
  std::string state() {
    std::lock_guard lock(mutex_);
    std::string text;
    for (size_t i = 0; i < levels.size(); ++i)
      if (const Library* library = entries_[i].library.get())
        text += (text.empty() ? "" : "; ") + library->path() +
                (library->problem().empty() ? ", " + std::to_string(functions.load()) + " kernels taken"
                                            : ": " + library->problem());
    return text;
  }
  std::atomic<uint64_t> functions{0};

 private:
  struct Entry {
    bool asked = false;
    std::unique_ptr<const Library> library;
  };
  std::mutex mutex_;
  std::array<Entry, levels.size()> entries_;
};

Libraries& libraries() {
  static auto* instance = new Libraries;
  return *instance;
}

bool wanted() {
  static const bool on = environment::flag("TORCH_OCL_AHEAD", true);
  return on && !bfloat16_pairs_emulated() && !capabilities_simulated();
}

const Level& level_of(const Device& device) { return levels[device.capabilities().vector_floats < 16 ? 0 : 1]; }

}  // namespace

std::string program(const Device& device, const std::string& source) {
  if (!device.calls_kernels() || !device.capabilities().fp64 || !wanted()) return {};
  const Level& level = level_of(device);
  return libraries().get(level) ? key(text(level, source)) : std::string();
}

std::string text(const Device& device, const std::string& source) { return text(level_of(device), source); }

bool call(Kernel& kernel, const std::string& program) {
  const Library* library = program.empty() ? nullptr : libraries().get(level_of(kernel.device()));
  const KernelFunction function = library ? library->find(program, kernel.name()) : nullptr;
  if (!function) return false;
  CpuExecutor::set_function(kernel, function);
  ++libraries().functions;
  return true;
}

std::string state() {
  if (!wanted()) return "not used";
  const std::string text = libraries().state();
  return text.empty() ? "none for this processor beside the library" : text;
}

}  // namespace ocl::ahead
