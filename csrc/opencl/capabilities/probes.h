// Abilities of a device that only a program can show, and a program that the driver may not survive: the library that
// Rusticl translates programs with ends the process, for example, when it meets a hint for prefetching. So the compiler
// process tries them (program/compiler_process.h), where the driver's death means no. Answers are kept on disk for this
// version of the driver. When one is needed that is not there, a process is asked for it and for all others that are
// possible and not known; what a death leaves over is asked again when it is needed.
//
// Where there is no such process nothing is tried, and the answer is no. TORCH_OCL_PROBES=here tries in this process.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

namespace ocl {

class CompilerProcess;
class Device;

// In the order in which they are asked. opens: another process has opened the device before and run a kernel.
enum class Probe { opens, fma, prefetch, float_atomics, ptx_atomics, bfloat16_pairs, tensor_cores, warpgroups };

// Of one device.
class Probes {
 public:
  explicit Probes(Device& device);
  ~Probes();

  bool passed(Probe probe) {
    const char state = states_[static_cast<size_t>(probe)].load(std::memory_order_acquire);
    return state != unknown ? state == yes : find_out(probe);
  }
  // Has a process that is asked something else by the caller also asked what every program soon needs to know, unless
  // that is known. Its answers come next, and read_ahead() takes them.
  void ask_ahead(std::shared_ptr<CompilerProcess> process);
  // `lives`: the process has answered the caller.
  void read_ahead(bool lives);
  // In the compiler process: tries it. Errors: InvalidArgument for a name that is no probe's.
  bool passed_here(const std::string& name);

 private:
  enum : char { unknown, no, yes };
  static constexpr size_t count = 8;

  bool find_out(Probe probe);
  bool know(Probe probe, bool passed);
  bool is_open(Probe probe);
  std::string key(Probe probe) const;
  void send(Probe first);
  void read_answer();
  void process_ended();

  Device& device_;
  std::array<std::atomic<char>, count> states_{};
  std::mutex mutex_;
  std::shared_ptr<CompilerProcess> process_;
  std::deque<Probe> asked_;  // of it, not answered yet
  int stopped_ = 0;          // processes that somebody else ended
};

}  // namespace ocl
