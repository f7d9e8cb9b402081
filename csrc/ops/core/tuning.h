// The quickest of several algorithms for a problem, found by running them once on the problem's own operands, and
// remembered.
//
// Measuring is off by default (TORCH_OCL_TUNE=1, torch.backends.ocl.benchmark). A known choice is used also when
// measuring is off; it comes from
//   1. earlier measurements on this device: <cache folder>/tuning/<key of the device>.tsv, read once, rewritten whole
//   after every measurement
//      (base/atomic_file.h). Two processes that measure at the same time may lose each other's choices, which costs a
//      repetition;
//   2. kernels_cl/tuning/cpu.tsv, which ships for CPU runtimes.
// Both files: a first line with the version of the problems' text (files of another version are reported and left
// alone), then one choice per line, "<problem>\t<algorithm>", the problem as text() gives it; lines that start with '#'
// and lines that cannot be parsed are skipped. An algorithm that refuses the problem (a switch, another device) is
// passed over.
//
// Source of the method: cudnn.benchmark and CLBlast's tuner, without their parameter spaces.
#pragma once

#include "ops/core/context.h"

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace ocl::ops::tuning {

// Identity of a problem: what decides which algorithm is quickest, without addresses.
class Problem {
 public:
  static constexpr int max_numbers = 28;

  Problem(std::string_view family, DType dtype) : family_(family), dtype_(dtype) {}  // family: a literal
  Problem& add(int64_t number);  // Errors: std::length_error after max_numbers
  template <size_t n>
  Problem& add(const std::array<int64_t, n>& numbers) {
    for (int64_t number : numbers) add(number);
    return *this;
  }
  std::string text() const;  // "conv_forward float32 0 8 1 64 ..."

 private:
  std::string_view family_;
  DType dtype_;
  int count_ = 0;
  std::array<int64_t, max_numbers> numbers_{};
};

bool measuring();
void set_measuring(bool on);
// Counts what may change a choice: measurements, clear(), set_measuring(). A choice that is kept elsewhere holds while
// this stays.
uint64_t generation();
// Something else has changed what is chosen: an algorithm was left out, say.
void count_change();
// Whether anything is known for the device or measuring is on; otherwise choice() finds nothing.
bool active(const Device& device);

// Name of the known choice; empty: none.
std::string_view choice(const Device& device, const Problem& problem);

struct Candidate {
  const char* name;
  std::function<void()> run;  // enqueues; writes the whole result
};

// What the candidates write: `numel` dense elements.
struct Result {
  void* data;
  DType dtype;
  int64_t numel;
};

// Runs the candidates, the default one first, until the budget is spent (at least the default and one more run), and
// remembers the quickest: one that is not 5% quicker than the default does not replace it. A candidate whose result
// differs from the default's by more than rounding (relative L2 error 1e-3, half types 2e-2, or where it is finite), or
// that fails, is reported on stderr and left out. Waits for the queue. The result is left as one of the accepted
// candidates writes it. A single candidate is neither run nor remembered. Gives the chosen name.
std::string_view measure(Queue& queue, const Problem& problem, std::span<const Candidate> candidates,
                         const Result& result);

// Every known choice of the device as lines of a file.
std::string table(const Device& device);
// Forgets what was measured on the device, on disk too.
void clear(const Device& device);

}  // namespace ocl::ops::tuning
