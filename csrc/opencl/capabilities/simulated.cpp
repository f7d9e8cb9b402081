#include "opencl/capabilities/simulated.h"

#include "base/environment.h"
#include "opencl/device.h"

#include <charconv>
#include <cstdio>
#include <mutex>
#include <set>
#include <stdexcept>

namespace ocl {

namespace {

// Sets the capability when the device allows the value.
using Take = bool (*)(Capabilities& c, uint64_t value);

void remove_extensions(Capabilities& c, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) std::erase(c.extensions, name);
}

template <auto member>
bool lower_number(Capabilities& c, uint64_t value) {
  if (value < 1 || value > c.*member) return false;
  c.*member = value;
  return true;
}

// `0` takes it away; `1` is what a device that has it has already.
template <auto member>
bool take_away(Capabilities& c, uint64_t value, std::initializer_list<std::string_view> names) {
  if (value > 1 || (value == 1 && !(c.*member))) return false;
  if (value == 0) c.*member = false, remove_extensions(c, names);
  return true;
}

struct Row {
  std::string_view name;
  const char* accepted;
  Take take;
  bool compiled;  // programs depend on it
};

constexpr Row rows[] = {
    {"compute_units", "a number of at least 1",
     [](Capabilities& c, uint64_t value) {
       if (value < 1 || value > 1 << 16) return false;
       c.compute_units = static_cast<uint32_t>(value);
       return true;
     },
     false},
    {"local_memory", "bytes, at most what the device has", lower_number<&Capabilities::local_memory>, false},
    {"max_work_group", "work-items, at most what the device takes", lower_number<&Capabilities::max_work_group>, false},
    {"fp64", "0",
     [](Capabilities& c, uint64_t value) { return take_away<&Capabilities::fp64>(c, value, {"cl_khr_fp64"}); }, true},
    {"fp16", "0",
     [](Capabilities& c, uint64_t value) { return take_away<&Capabilities::fp16>(c, value, {"cl_khr_fp16"}); }, true},
    {"sub_groups", "0",
     [](Capabilities& c, uint64_t value) {
       return take_away<&Capabilities::sub_groups>(c, value, {"cl_khr_subgroups", "cl_intel_subgroups"});
     },
     true},
    {"fma", "0", [](Capabilities& c, uint64_t value) { return take_away<&Capabilities::fma>(c, value, {}); }, true},
    {"float_atomics", "0",
     [](Capabilities& c, uint64_t value) {
       return take_away<&Capabilities::float_atomic_add>(c, value, {"cl_ext_float_atomics"});
     },
     true},
    {"int64_atomics", "0",
     [](Capabilities& c, uint64_t value) {
       if (value > 1 || (value == 1 && !c.has_extension("cl_khr_int64_base_atomics"))) return false;
       if (value == 0) remove_extensions(c, {"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"});
       return true;
     },
     true},
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string names() {
  std::string all;
  for (const Row& row : rows) all.append(all.empty() ? "" : ", ").append(row.name);
  return all;
}

// What is wrong with one part of the text; empty: it has been taken.
std::string take_part(Capabilities& c, std::string_view part) {
  const size_t equals = part.find('=');
  const std::string_view name = trimmed(part.substr(0, equals));
  for (const Row& row : rows) {
    if (row.name != name) continue;
    const std::string_view digits = equals == part.npos ? std::string_view() : trimmed(part.substr(equals + 1));
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc() && end == digits.data() + digits.size() && row.take(c, value)) return {};
    return "'" + std::string(part) + "' is ignored: " + std::string(name) + " takes " + row.accepted;
  }
  return "'" + std::string(part) + "' is ignored: known are " + names();
}

}  // namespace

Capabilities simulate(Capabilities c, std::string_view text, std::vector<std::string>& problems) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = trimmed(text.substr(0, comma));
    text.remove_prefix(comma == text.npos ? text.size() : comma + 1);
    if (part.empty()) continue;
    if (std::string problem = take_part(c, part); !problem.empty()) problems.push_back(std::move(problem));
  }
  return c;
}

Capabilities simulate_by_environment(Capabilities c) {
  const auto text = environment::get("TORCH_OCL_SIMULATE");
  if (!text) return c;
  std::vector<std::string> problems;
  c = simulate(std::move(c), *text, problems);
  static std::mutex mutex;
  static auto& reported = *new std::set<std::string>;
  std::lock_guard lock(mutex);
  for (const std::string& problem : problems)
    if (reported.insert(problem).second)
      std::fprintf(stderr, "torch_ocl: warning: TORCH_OCL_SIMULATE: %s\n", problem.c_str());
  return c;
}

bool capabilities_simulated() {
  static const bool simulated = environment::get("TORCH_OCL_SIMULATE").has_value();
  return simulated;
}

std::string simulated_source(const Capabilities& c) {
  std::string text;
  if (!capabilities_simulated()) return text;
  // Drivers define what the hardware has. `double` by name is an error then, as where no such type is.
  if (!c.fp64) text += "#undef cl_khr_fp64\n#define double double_is_missing_on_this_device\n";
  if (!c.fp16) text += "#undef cl_khr_fp16\n";
  if (!c.sub_groups) text += "#undef cl_khr_subgroups\n#undef cl_intel_subgroups\n";
  if (!c.has_extension("cl_khr_int64_base_atomics"))
    text += "#undef cl_khr_int64_base_atomics\n#undef cl_khr_int64_extended_atomics\n";
  if (!c.float_atomic_add) text += "#undef cl_ext_float_atomics\n";
  return text;
}

SimulatedCapabilities::SimulatedCapabilities(Device& device, std::string_view text)
    : device_(device), real_(device.capabilities_) {
  std::vector<std::string> problems;
  Capabilities c = simulate(real_, text, problems);
  for (const Row& row : rows)
    if (row.compiled && text.find(row.name) != text.npos)
      problems.push_back(std::string(row.name) + " cannot change while programs exist");
  if (!problems.empty()) throw InvalidArgument(problems.front());
  device.capabilities_ = std::move(c);
}

SimulatedCapabilities::~SimulatedCapabilities() { device_.capabilities_ = std::move(real_); }

}  // namespace ocl
