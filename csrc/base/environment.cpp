#include "base/environment.h"

#include "base/os.h"
#include "base/warning.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace ocl::environment {

namespace {

constexpr Values flags{Kind::flag}, path{Kind::path};
constexpr Values numbers(int64_t low, int64_t high = INT64_MAX) { return {Kind::number, "", low, high}; }
constexpr Values words(const char* list) { return {Kind::word, list}; }
constexpr Values text(const char* description) { return {Kind::text, description}; }

constexpr Variable variables[] = {
    {"TORCH_OCL_VISIBLE_DEVICES", "all", text("all, or a comma-separated list of indices and parts of names"),
     "devices to use and their order: a comma-separated list of indices, or parts of a platform's or device's name"},
    {"TORCH_OCL_DEVICES_PER_CPU", "1", text("1 to 64, or numa"),
     "devices that every CPU is cut into, each with its share of the processors: so many, or one for each NUMA node "
     "(docs/use/devices.md)"},
    {"TORCH_OCL_AUTOLOAD", "auto", words("auto 1 0"),
     "whether `import torch` loads torch_ocl: auto (an OpenCL device and no CUDA or XPU device), 1, 0"},
    {"TORCH_OCL_FALLBACK", "warn", words("warn silent error"),
     "what an operator without a kernel does: warn (run on the CPU, warn once), silent, error"},
    {"TORCH_OCL_KERNEL_STYLE", "by device", words("cpu gpu"), "cpu or gpu: kernels of that style on every device"},
    {"TORCH_OCL_KERNEL_DIR", "embedded", path,
     "folder from which kernel sources are read instead of the embedded ones"},
    {"TORCH_OCL_CACHE_DIR", "$XDG_CACHE_HOME/torch_ocl", path, "folder of compiled programs and tuning results"},
    {"TORCH_OCL_CACHE", "1", flags, "0 switches the disk cache of compiled programs off"},
    {"TORCH_OCL_UNIFIED_MEMORY", "by self-test", flags,
     "0 treats every device as one that does not share memory with the host"},
    {"TORCH_OCL_DUMP_SOURCE", "", path, "folder into which the final source of every built program is written"},
    {"TORCH_OCL_AHEAD", "1", flags,
     "0 has the driver compile all kernels, also those that were compiled for CPU devices when the library was built "
     "(docs/design/programs.md)"},
    {"TORCH_OCL_RECORD_PROGRAMS", "", path,
     "file to which every program that is used is appended, as tools/record_programs.py reads it"},
    {"TORCH_OCL_BUILD_LOG", "0", flags,
     "1 prints a line for every program that is compiled, with its time, for every kernel at its first use and for "
     "every choice that was measured"},
    {"TORCH_OCL_BUILD_PROCESSES", "one fewer than processors", numbers(0, 64),
     "processes that compile programs for CPU devices beside this one (at most 7 unless set), which meanwhile issues "
     "what needs them; 0: none"},
    {"TORCH_OCL_HOST_THREADS", "the processors of the process", numbers(0, 1024),
     "threads that run kernels on PoCL and on Intel's CPU runtime, the calling one among them "
     "(docs/design/cpu-executor.md); 0 leaves all to the drivers' own threads"},
    {"TORCH_OCL_CALL_KERNELS", "by self-test", words("1 0 only"),
     "0 has the driver launch every kernel, also those whose compiled code could be called as a function on CPU "
     "devices (docs/design/cpu-executor.md); 1 tests that in the process itself, only is what this test sets for "
     "itself"},
    {"TORCH_OCL_PROBES", "another process", words("here"),
     "here: what a driver may not survive (instructions that its compiler may not know, the first compilation of a "
     "program by a driver that is not well known) is tried in the process itself, for devices that only one process "
     "may "
     "open"},
    {"TORCH_OCL_JOIN", "1", flags,
     "0 runs every elementwise operator by itself, also where several wait one behind another (CPU devices, "
     "docs/design/fusion.md)"},
    {"TORCH_OCL_MEMORY_LIMIT", "0", numbers(0), "most bytes of device memory to reserve on one device (0: no limit)"},
    {"TORCH_OCL_SYNC", "0", flags, "1 waits after every launch, so that errors appear where they happen"},
    {"TORCH_OCL_CONV", "auto", text("auto or an algorithm's name"),
     "name of a convolution algorithm to force (docs/design/kernels.md)"},
    {"TORCH_OCL_GEMM", "auto", text("auto or an algorithm's name"),
     "name of a gemm algorithm to force (docs/design/kernels.md)"},
    {"TORCH_OCL_ATTENTION", "auto", words("auto products"),
     "products computes attention on tensor cores by matrix products with stored scores, also where auto takes the "
     "kernels that keep them in registers (flash)"},
    {"TORCH_OCL_TUNE", "0", flags,
     "1 measures the algorithms of every new gemm and convolution problem once and keeps the quickest "
     "(torch.backends.ocl.benchmark)"},
    {"TORCH_OCL_TUNE_BUDGET", "1000", numbers(1), "milliseconds to spend on measuring one problem"},
    {"TORCH_OCL_BFLOAT16_PAIRS", "by self-test", words("1 0 emulate"),
     "0 forbids the processor's own products of bfloat16 in gemm and convolutions on CPU runtimes, 1 takes them also "
     "where float32 multiplies faster, emulate runs their kernels in plain OpenCL C"},
    {"TORCH_OCL_TENSOR_CORES", "by self-test", words("1 0 mma emulate emulate_warpgroups"),
     "0 forbids products on the tensor cores of NVIDIA's GPUs, mma those by warpgroups; emulate and emulate_warpgroups "
     "run these kernels in plain OpenCL C on devices with gpu kernels"},
    {"TORCH_OCL_VECTOR_FLOATS", "as the driver says", numbers(1, 64),
     "floats in a vector register of a CPU: 16 or more compiles register tiles for AVX-512, fewer for AVX2 and others"},
    {"TORCH_OCL_SIMULATE", "", text("name=value, ..."),
     "for tests: a device that can do less, or with other compute units, such as compute_units=64,local_memory=32768,"
     "max_work_group=256,fp64=0,fp16=0,fma=0,sub_groups=0,float_atomics=0,int64_atomics=0"},
    {"TORCH_OCL_INJECT", "", text("a comma-separated list of faults"),
     "faults of drivers, for tests of the ways around them (csrc/base/injected_faults.h)"},
    {"TORCH_OCL_WINOGRAD", "auto", words("auto precise off"),
     "Winograd convolutions: auto (or 1: F(4x4), the fastest), precise (F(2x2)) or off (or 0); "
     "torch.backends.ocl.winograd"},
};

// Variables of the build and of the scripts around the library, not its own.
constexpr const char* others[] = {"TORCH_OCL_BUILD_DIR", "TORCH_OCL_BUILD_TESTS", "TORCH_OCL_CLBLAST",
                                  "TORCH_OCL_DRIVER",    "TORCH_OCL_LIBRARY",     "TORCH_OCL_TESTS"};

const Variable* find(const std::string& name) {
  for (const Variable& variable : variables)
    if (name == variable.name) return &variable;
  return nullptr;
}

const Variable& row(const char* name, std::initializer_list<Kind> kinds) {
  const Variable* variable = find(name);
  if (!variable || std::find(kinds.begin(), kinds.end(), variable->values.kind) == kinds.end())
    throw std::logic_error(std::string(name) + " is not such a variable in the table of environment variables");
  return *variable;
}

std::optional<std::string> raw(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return std::string(value);
}

std::vector<std::string> split(const char* list) {
  std::istringstream stream(list);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

bool any_of(std::initializer_list<const char*> list, const std::string& value) {
  return std::any_of(list.begin(), list.end(), [&](const char* each) { return value == each; });
}

std::string lower(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  return value;
}

// ---- values by kind; nothing: not accepted

std::optional<bool> parse_flag(const std::string& value) {
  const std::string word = lower(value);
  if (any_of({"1", "on", "yes", "true"}, word)) return true;
  if (any_of({"0", "off", "no", "false"}, word)) return false;
  return std::nullopt;
}

std::optional<int64_t> parse_number(const Values& values, const std::string& value) {
  char* end = nullptr;
  errno = 0;
  const int64_t result = std::strtoll(value.c_str(), &end, 0);
  if (errno || end == value.c_str() || *end || result < values.low || result > values.high) return std::nullopt;
  return result;
}

std::optional<std::string> parse_word(const Values& values, const std::string& value) {
  const std::string word = lower(value);
  const std::vector<std::string> list = split(values.words);
  for (const std::string& each : list)
    if (each == word) return each;
  if (const auto yes = parse_flag(word))
    for (const std::string& each : list)
      if (*yes ? any_of({"1", "on", "auto"}, each) : any_of({"0", "off"}, each)) return each;
  return std::nullopt;
}

bool is_accepted(const Variable& variable, const std::string& value) {
  switch (variable.values.kind) {
    case Kind::flag: return parse_flag(value).has_value();
    case Kind::number: return parse_number(variable.values, value).has_value();
    case Kind::word: return parse_word(variable.values, value).has_value();
    default: return true;
  }
}

// ---- warnings

bool first_time(const std::string& name) {
  static auto& warned = *new std::set<std::string>;
  static auto& mutex = *new std::mutex;
  std::lock_guard lock(mutex);
  return warned.insert(name).second;
}

void report(const Variable& variable, const std::string& value) {
  const std::string usual = variable.default_value;
  reject(variable.name, value, accepted(variable),
         usual.empty() ? "it is ignored" : "the default is used (" + usual + ")");
}

template <class Parsed>
auto checked(const Variable& variable, const std::string& value, Parsed parsed) {
  if (!parsed) report(variable, value);
  return parsed;
}

// Letters to insert, delete or exchange to make one of the other.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> line(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) line[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = line[0];
    line[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = line[j];
      line[j] = std::min({above + 1, line[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return line[b.size()];
}

void report_unknown(const std::string& name) {
  const Variable* nearest = std::min_element(
      std::begin(variables), std::end(variables),
      [&](const Variable& a, const Variable& b) { return distance(name, a.name) < distance(name, b.name); });
  const bool near = distance(name, nearest->name) <= 4;
  if (first_time(name))
    warn("the environment variable " + name + " is not known and has no effect" +
         (near ? std::string("; did you mean ") + nearest->name + "?"
               : "; `python -m torch_ocl environment` lists those that are"));
}

}  // namespace

std::span<const Variable> table() { return variables; }

std::string accepted(const Variable& variable) {
  const Values& values = variable.values;
  switch (values.kind) {
    case Kind::flag: return "0 or 1";
    case Kind::number:
      return values.high == INT64_MAX ? "a whole number from " + std::to_string(values.low)
                                      : std::to_string(values.low) + " to " + std::to_string(values.high);
    case Kind::path: return "a path";
    case Kind::text: return values.words;
    case Kind::word: break;
  }
  std::string result;
  const std::vector<std::string> list = split(values.words);
  for (size_t i = 0; i < list.size(); ++i) result += (i == 0 ? "" : i + 1 == list.size() ? " or " : ", ") + list[i];
  return result;
}

std::optional<std::string> get(const char* name) { return raw(row(name, {Kind::path, Kind::text}).name); }

bool flag(const char* name, bool default_value) {
  const Variable& variable = row(name, {Kind::flag});
  const auto value = raw(name);
  return value ? checked(variable, *value, parse_flag(*value)).value_or(default_value) : default_value;
}

int64_t number(const char* name, int64_t default_value) {
  const Variable& variable = row(name, {Kind::number});
  const auto value = raw(name);
  return value ? checked(variable, *value, parse_number(variable.values, *value)).value_or(default_value)
               : default_value;
}

std::string word(const char* name, const char* default_value) {
  const Variable& variable = row(name, {Kind::word});
  const auto value = raw(name);
  return value ? checked(variable, *value, parse_word(variable.values, *value)).value_or(default_value) : default_value;
}

void reject(const char* name, const std::string& value, const std::string& accepted, const std::string& instead) {
  if (first_time(name)) warn(std::string(name) + "=" + value + " is not accepted (" + accepted + "): " + instead);
}

void check() {
  static const bool once = [] {
    for (const Variable& variable : variables) {
      if (variable.name == std::string("TORCH_OCL_AUTOLOAD")) continue;  // Python reads it, and warns
      const auto value = raw(variable.name);
      if (value && !is_accepted(variable, *value)) report(variable, *value);
    }
    for (const std::string& name : os::environment_names())
      if (name.starts_with("TORCH_OCL_") && !find(name) &&
          std::none_of(std::begin(others), std::end(others), [&](const char* other) { return name == other; }))
        report_unknown(name);
    return true;
  }();
  (void)once;
}

}  // namespace ocl::environment
