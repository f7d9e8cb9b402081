#include "opencl/capabilities/probes.h"

#include "base/environment.h"
#include "opencl/capabilities/bfloat16_pairs.h"
#include "opencl/capabilities/float_atomics.h"
#include "opencl/capabilities/fma.h"
#include "opencl/capabilities/prefetch.h"
#include "opencl/capabilities/tensor_cores.h"
#include "opencl/device.h"
#include "opencl/program/compiler_process.h"
#include "opencl/program/kept_answers.h"
#include "opencl/program/program.h"
#include "opencl/program/program_cache.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace ocl {

namespace {

struct Row {
  Probe probe;
  const char* name;  // between the processes
  const char* file;  // of kernels_cl, whose text the answer depends on
  bool (*possible)(const Device&);
  bool (*passes)(Device&);  // tries it in this process
};

// A process that answers at all has opened the device.
constexpr Row rows[] = {
    {Probe::opens, "opens", "selftest/selftest.cl", [](const Device&) { return true; }, [](Device&) { return true; }},
    {Probe::fma, "fma", "selftest/fma.cl", may_lack_fma, multiplies_and_adds},
    {Probe::prefetch, "prefetch", "selftest/prefetch.cpu.cl", may_have_prefetch, prefetches},
    {Probe::float_atomics, "float_atomics", "selftest/atomic.cl", may_have_float_atomics,
     [](Device& device) { return adds_right(device, FloatAtomics::extension); }},
    {Probe::ptx_atomics, "ptx_atomics", "selftest/atomic.cl", may_have_ptx_atomics,
     [](Device& device) { return adds_right(device, FloatAtomics::ptx); }},
    {Probe::bfloat16_pairs, "bfloat16_pairs", "selftest/bfloat16.cpu.cl", may_have_bfloat16_pairs, multiplies_pairs},
    {Probe::tensor_cores, "tensor_cores", "selftest/tensor_cores.gpu.cl", may_have_tensor_cores,
     multiplies_on_tensor_cores},
    {Probe::warpgroups, "warpgroups", "selftest/tensor_cores.gpu.cl", may_have_warpgroups, multiplies_by_warpgroups},
};

const Row& row_of(Probe probe) { return rows[static_cast<size_t>(probe)]; }

bool tries_here() {
  static const bool here = environment::word("TORCH_OCL_PROBES", "") == "here";
  return here || CompilerProcess::inside();
}

}  // namespace

Probes::Probes(Device& device) : device_(device) { static_assert(std::size(rows) == count); }

Probes::~Probes() = default;

// What a setting or another text makes a different program is another question.
std::string Probes::key(Probe probe) const {
  std::string text = expanded_source(row_of(probe).file);
  for (const char* name : {"TORCH_OCL_BFLOAT16_PAIRS", "TORCH_OCL_TENSOR_CORES", "TORCH_OCL_KERNEL_STYLE"})
    text += environment::word(name, "") + "\n";
  return program_cache::key(device_, std::string("probe ") + row_of(probe).name, text);
}

bool Probes::know(Probe probe, bool passed) {
  states_[static_cast<size_t>(probe)].store(passed ? yes : no, std::memory_order_release);
  return passed;
}

// Whether somebody has to be asked; takes what is known.
bool Probes::is_open(Probe probe) {
  if (states_[static_cast<size_t>(probe)].load() != unknown) return false;
  if (!row_of(probe).possible(device_)) return know(probe, false), false;
  const auto answer = kept_answers::get(key(probe));
  if (answer) know(probe, *answer == "yes");
  return !answer;
}

bool Probes::passed_here(const std::string& name) {
  for (const Row& row : rows)
    if (row.name == name) return row.passes(device_);
  throw InvalidArgument("there is no probe " + name);
}

bool Probes::find_out(Probe probe) {
  const std::lock_guard lock(mutex_);
  const auto& state = states_[static_cast<size_t>(probe)];
  if (CompilerProcess::inside()) return know(probe, row_of(probe).possible(device_) && row_of(probe).passes(device_));
  if (!is_open(probe)) return state.load() == yes;
  if (tries_here()) return know(probe, row_of(probe).passes(device_));
  if (!CompilerProcess::exists()) return know(probe, probe == Probe::opens);
  while (state.load() == unknown) {
    if (std::find(asked_.begin(), asked_.end(), probe) == asked_.end()) send(probe);
    read_answer();
  }
  return state.load() == yes;
}

void Probes::ask_ahead(std::shared_ptr<CompilerProcess> process) {
  constexpr Probe soon = Probe::prefetch;  // every product and convolution asks for it
  const std::lock_guard lock(mutex_);
  if (tries_here() || !is_open(soon)) return;
  process_ = std::move(process);
  asked_.assign(1, soon);
  process_->ask(device_, row_of(soon).name);
}

void Probes::read_ahead(bool lives) {
  const std::lock_guard lock(mutex_);
  if (!lives) asked_.clear();  // they were not reached
  while (!asked_.empty()) read_answer();
  process_.reset();
}

// `first`, then all others that are open.
void Probes::send(Probe first) {
  process_ = std::make_shared<CompilerProcess>();
  asked_.assign(1, first);
  for (const Row& row : rows)
    if (row.probe != first && row.probe != Probe::opens && is_open(row.probe)) asked_.push_back(row.probe);
  for (const Probe probe : asked_) process_->ask(device_, row_of(probe).name);
  process_->last();
}

void Probes::read_answer() {
  const Probe probe = asked_.front();
  const CompilerProcess::Answer answer = process_->answer();
  if (answer == CompilerProcess::Answer::gone) return process_ended();
  asked_.pop_front();
  if (answer == CompilerProcess::Answer::unable) {  // its own error is as good
    know(probe, probe == Probe::opens);
    std::fprintf(stderr,
                 "torch_ocl: another process could not open %s, so nothing is known about its %s, which is not used. "
                 "TORCH_OCL_PROBES=here tries it in this process.\n",
                 device_.capabilities().name.c_str(), row_of(probe).name);
  } else {
    const bool passed = answer == CompilerProcess::Answer::yes;
    kept_answers::keep(key(probe), passed ? "yes" : "no");
    know(probe, passed);
  }
  if (asked_.empty()) process_.reset();
}

// The first that was not answered has ended it; others are asked again when they are needed.
void Probes::process_ended() {
  const Probe probe = asked_.front();
  const os::ChildProcess::End end = process_->end();
  const std::string how = process_->end_text();
  asked_.clear();
  process_.reset();
  if (end != os::ChildProcess::End::failed && ++stopped_ < 2) return;
  know(probe, false);
  if (end != os::ChildProcess::End::failed) return;
  kept_answers::keep(key(probe), "no: " + how);
  device_.guard(std::string("the self-test ") + row_of(probe).name + " ended a process (" + how + ")");
}

}  // namespace ocl
