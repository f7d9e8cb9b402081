#include "opencl/program/program_cache.h"

#include "base/atomic_file.h"
#include "opencl/device.h"
#include "base/environment.h"
#include "base/os.h"
#include "base/warning.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <utility>

namespace ocl::program_cache {

namespace fs = std::filesystem;

namespace {

constexpr char magic[4] = {'O', 'C', 'L', 'P'};

struct Header {
  char magic[4];
  uint32_t format;
  uint64_t bytes;
  uint64_t hash;
};

uint64_t fnv(const void* data, size_t bytes, uint64_t state = 0xcbf29ce484222325ull) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) state = (state ^ p[i]) * 0x100000001b3ull;
  return state;
}

fs::path path_of(const std::string& key) { return fs::path(folder()) / "programs" / (key + ".bin"); }

}  // namespace

bool trusted(const std::string& path) {
  if (os::others_keep_off(path)) return true;
  static const bool once = [&] {
    warn(
        "the cache's " + path +
        " is not used: another user owns it, or its group or others may write it, and what is cached runs inside of "
        "this process. Kernels are compiled again. TORCH_OCL_CACHE_DIR names another folder; `chmod -R go-w` mends one "
        "of your own");
    return true;
  }();
  (void)once;
  return false;
}

bool enabled() {
  static const bool on = [] {
    if (!environment::flag("TORCH_OCL_CACHE", true)) return false;
    for (const char* part : {"", "/programs", "/answers"})
      if (!trusted(folder() + part)) return false;
    return true;
  }();
  return on;
}

std::string folder() {
  if (auto value = environment::get("TORCH_OCL_CACHE_DIR")) return *value;
  return os::user_cache_folder() + "/torch_ocl";
}

os::FileLock build_turn(const std::string& key) {
  constexpr double patience = 120;  // seconds; a compiler that hangs must not stop the other processes for ever
  return {os::user_cache_folder() + "/torch_ocl/locks/" + key.substr(0, 2), patience};
}

// The drivers' own settings of what they compile for and how.
static std::string compiler_settings() {
  std::string result;
  for (const char* name : {"CL_CONFIG_CPU_TARGET_ARCH", "CL_CONFIG_CPU_VECTORIZER_MODE", "POCL_EXTRA_BUILD_FLAGS",
                           "POCL_WORK_GROUP_METHOD"})
    if (const char* value = std::getenv(name)) result += std::string("\n") + name + "=" + value;
  return result;
}

std::string hash(std::span<const std::string> parts) {
  uint64_t a = 0xcbf29ce484222325ull, b = 0x9e3779b97f4a7c15ull;
  for (const std::string& part : parts) {
    const uint64_t length = part.size();
    a = fnv(part.data(), part.size(), fnv(&length, sizeof length, a));
    b = fnv(part.data(), part.size(), fnv(&length, sizeof length, b)) ^ (b >> 31);
  }
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b));
  return text;
}

std::string key(const Device& device, const std::string& options, const std::string& source) {
  const Capabilities& c = device.capabilities();
  const std::string parts[] = {
      std::to_string(format),        c.platform_name, c.platform_version, c.name, c.device_version, c.driver_version,
      options + compiler_settings(), source};
  return hash(parts);
}

std::optional<std::vector<unsigned char>> read(const std::string& key) {
  const fs::path path = path_of(key);
  if (!trusted(path.string())) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  Header header;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return std::nullopt;
  if (std::memcmp(header.magic, magic, 4) != 0 || header.format != format || header.bytes == 0 ||
      header.bytes > (uint64_t{1} << 30))
    return std::nullopt;
  std::vector<unsigned char> data(header.bytes);
  if (!file.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(data.size())) ||
      file.peek() != std::ifstream::traits_type::eof())
    return std::nullopt;
  if (fnv(data.data(), data.size()) != header.hash) return std::nullopt;
  return data;
}

bool write(const std::string& key, const std::vector<unsigned char>& binary) noexcept {
  if (binary.empty()) return false;
  Header header;
  std::memcpy(header.magic, magic, 4);
  header.format = format;
  header.bytes = binary.size();
  header.hash = fnv(binary.data(), binary.size());
  // A cache that cannot be written only costs time.
  return write_atomically(path_of(key), {{reinterpret_cast<const char*>(&header), sizeof header},
                                         {reinterpret_cast<const char*>(binary.data()), binary.size()}});
}

std::vector<unsigned char> binary_of(cl_program program) {
  size_t bytes = 0;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, nullptr) != CL_SUCCESS) return {};
  std::vector<unsigned char> binary(bytes);
  unsigned char* data = binary.data();
  if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, nullptr) != CL_SUCCESS) return {};
  return binary;
}

namespace {

using Clock = std::chrono::steady_clock;

// Programs to be written at the end. Empty and unused until asking for a binary was slow once or has to wait.
struct Postponed {
  std::mutex mutex;
  int process = 0;  // 0: nothing was postponed yet
  std::vector<std::pair<cl_program, std::string>> programs;
};

Postponed& postponed() {
  static auto* instance = new Postponed;
  return *instance;
}

}  // namespace

static void warn_unless_writable();

void keep(const Device& device, cl_program program, const std::string& key) {
  warn_unless_writable();
  Postponed& waiting = postponed();
  const bool wait = device.executor() && device.executor()->binaries_at_end();
  {
    std::lock_guard lock(waiting.mutex);
    if (wait && waiting.process == 0) waiting.process = os::process_id();
    if (waiting.process != 0) {
      waiting.programs.emplace_back(program, key);
      return;
    }
  }
  const auto start = Clock::now();
  write(key, binary_of(program));
  if (Clock::now() - start < std::chrono::milliseconds(100)) return;
  std::lock_guard lock(waiting.mutex);
  if (waiting.process == 0) waiting.process = os::process_id();
}

size_t write_postponed(double seconds) {
  Postponed& waiting = postponed();
  if (waiting.process != os::process_id()) return 0;  // a forked child must not touch the driver
  std::lock_guard lock(waiting.mutex);
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  while (!waiting.programs.empty() && Clock::now() < deadline) {
    const auto [program, key] = waiting.programs.back();
    waiting.programs.pop_back();
    std::error_code ignored;
    const fs::path path = path_of(key);  // another process may have been here
    if (!fs::exists(path, ignored) || !os::others_keep_off(path.string())) write(key, binary_of(program));
  }
  return waiting.programs.size();
}

void remove(const std::string& key) noexcept {
  std::error_code ignored;
  fs::remove(path_of(key), ignored);
}

static bool writable(const fs::path& programs) {
  std::error_code error;
  os::make_private_folder(programs.string());
  const fs::path probe = programs / (".probe." + std::to_string(os::process_id()));
  const bool written = static_cast<bool>(std::ofstream(probe) << 1 << std::flush);
  fs::remove(probe, error);
  return written;
}

static void warn_unless_writable() {
  static const bool once = [] {
    if (!enabled() || writable(fs::path(folder()) / "programs")) return true;
    warn("the cache folder " + folder() +
         " cannot be written: kernels are compiled again in every process. TORCH_OCL_CACHE_DIR names another folder, "
         "TORCH_OCL_CACHE=0 switches the cache off");
    return true;
  }();
  (void)once;
}

State state() {
  State result;
  std::error_code error;
  const fs::path programs = fs::path(folder()) / "programs";
  for (fs::directory_iterator it(programs, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".bin") {
      ++result.files;
      result.bytes += it->file_size(error);
    }
  result.writable = writable(programs);
  return result;
}

void clear() {
  std::error_code ignored;
  for (const char* part : {"programs", "answers"}) fs::remove_all(fs::path(folder()) / part, ignored);
}

}  // namespace ocl::program_cache
