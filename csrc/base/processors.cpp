#include "base/processors.h"

#include "base/control_group.h"
#include "base/environment.h"
#include "base/os.h"
#include "base/warning.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>

namespace ocl::processors {

namespace {

// The number at the beginning of a variable ("4", or "4,2" of OMP_NUM_THREADS); 0: there is none.
unsigned leading_number(const char* variable) {
  const char* text = std::getenv(variable);
  const long value = text ? std::strtol(text, nullptr, 10) : 0;
  return value > 0 ? static_cast<unsigned>(std::min(value, 1l << 20)) : 0;
}

Facts read_facts() {
  Facts facts;
  facts.machine = os::machine_processors();
  facts.allowed = os::allowed_processors();
  const double quota = control_group::processors();
  facts.quota = quota > 0 ? quota : os::limits().processors;
  facts.openmp = leading_number("OMP_NUM_THREADS");
  facts.asked = environment::number("TORCH_OCL_HOST_THREADS", -1);
  for (const char* variable : {"POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT", "CL_CONFIG_CPU_TBB_NUM_WORKERS"})
    if (const unsigned limit = leading_number(variable); limit && (facts.driver == 0 || limit < facts.driver)) {
      facts.driver = limit;
      facts.driver_variable = variable;
    }
  facts.ranks = std::max(1u, leading_number("LOCAL_WORLD_SIZE"));
  facts.rank = std::min(leading_number("LOCAL_RANK"), facts.ranks - 1);
  facts.torchrun = std::getenv("TORCHELASTIC_RUN_ID") != nullptr;
  return facts;
}

// Whether threads are shared out: several ranks, and nobody has said how many threads each is to have.
bool shared_out(const Facts& facts) {
  const bool said = facts.openmp && !(facts.openmp == 1 && facts.torchrun);
  return facts.ranks > 1 && !said && !facts.driver;
}

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace

Decision decide(const Facts& facts) {
  if (facts.asked >= 0) return {static_cast<unsigned>(facts.asked), "TORCH_OCL_HOST_THREADS", true};
  Decision least{std::max(1u, facts.allowed), "the process's affinity mask", false};
  if (facts.allowed >= facts.machine) least.reason = "the processors of the machine";
  const auto limit = [&](unsigned threads, const std::string& reason) {
    if (threads < least.threads || (threads == least.threads && threads == 1)) least = {threads, reason, true};
  };
  if (facts.quota > 0)
    limit(static_cast<unsigned>(std::clamp(std::lround(std::min(facts.quota, 1e6)), 1l, 1'000'000l)),
          "the control group's quota of " + short_text(facts.quota) + " processors");
  if (shared_out(facts)) {
    // Shares differ by one where the ranks do not divide the processors.
    const unsigned all = least.threads;
    const unsigned share = all * (facts.rank + 1) / facts.ranks - all * facts.rank / facts.ranks;
    return {std::max(1u, share), "the share of one of " + std::to_string(facts.ranks) + " local ranks", true};
  }
  if (facts.openmp) limit(facts.openmp, "OMP_NUM_THREADS");
  if (facts.driver) limit(facts.driver, facts.driver_variable);
  return least;
}

const Facts& facts() {
  static const auto& facts = *new Facts(read_facts());
  return facts;
}

const Decision& pool() {
  static const auto& decision = *new Decision([] {
    const Decision result = decide(facts());
    if (result.threads == 1 && !result.asked && facts().machine > 1)
      warn("kernels on CPU devices run on 1 of " + std::to_string(facts().machine) +
           " processors, because the process's affinity mask allows no other. If that is meant, "
           "TORCH_OCL_HOST_THREADS=1 says so and silences this warning");
    return result;
  }());
  return decision;
}

unsigned usable() {
  Facts own;
  own.machine = facts().machine, own.allowed = facts().allowed, own.quota = facts().quota;
  own.ranks = facts().ranks, own.rank = facts().rank;
  return decide(own).threads;
}

// Devices that a driver's own CPU is cut into (cpu_parts.h) are shares of its threads already.
unsigned drivers_share() {
  const auto parts = environment::get("TORCH_OCL_DEVICES_PER_CPU");
  const bool whole = !parts || *parts == "1";
  return whole && facts().asked < 0 && shared_out(facts()) ? pool().threads : 0;
}

namespace {

struct Root {
  std::mutex mutex;
  std::string folder;
};

Root& root() {
  static auto* instance = new Root;
  return *instance;
}

}  // namespace

void set_root(const std::string& folder) {
  std::lock_guard lock(root().mutex);
  root().folder = folder;
}

Memory memory() {
  std::string folder;
  {
    std::lock_guard lock(root().mutex);
    folder = root().folder;
  }
  return memory(folder);
}

Memory memory(const std::string& root) {
  Memory result;
  uint64_t available = 0, swap = 0;
  std::ifstream lines(root + "/proc/meminfo");
  for (std::string line; std::getline(lines, line);) {
    const auto bytes = [&](const char* name, uint64_t& value) {
      if (line.starts_with(name)) value = std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10) << 10;
    };
    bytes("MemTotal:", result.physical);
    bytes("MemAvailable:", available);
    bytes("SwapFree:", swap);
  }
  control_group::Memory group = control_group::memory(root, swap);
  if (result.physical == 0) {  // a system without these files
    const os::Limits limits = os::limits();
    result.physical = os::installed_memory();
    available = limits.available;
    group.limit = std::min(group.limit, limits.memory);
  }
  result.total = result.physical ? std::min(result.physical, group.limit) : 0;
  if (available || group.available != control_group::no_limit)
    result.available = std::min(available ? available + swap : group.available, group.available);
  return result;
}

}  // namespace ocl::processors
