// Programs that are compiled while their caller goes on: at the first training step it issues every launch of the step
// within a fraction of the time that the compiler takes for one program.
//
// For devices whose commands run on threads of this process (Device::executor), where a kernel is first needed when
// its launch is run. A program that is not in the disk cache waits in a list. Whoever needs one compiles it, or, where
// it is being compiled elsewhere, those that wait until it is done. Meanwhile processes of our own (csrc/compiler) take
// programs from the list and put them into the disk cache: PoCL's compiler works on one program at a time in a process.
// They are started when at least one program is left over for them, and end when there was nothing to do for some
// seconds, or with this process.
//
// TORCH_OCL_BUILD_PROCESSES says how many (default: one fewer than processors, at most 7; 0: none, programs are
// compiled where they are asked for).
#pragma once

#include "opencl/program/program_build.h"

#include <memory>

namespace ocl {

// A program that may still have to be compiled.
class BuildAhead {
 public:
  // Whether programs of this device may be built so. False where the compiler's program does not lie beside this
  // library.
  static bool available(const Device& device);
  // Beside: no launch waits for it, another process compiles it after those that are waited for.
  static std::shared_ptr<BuildAhead> start(ProgramRequest request, bool beside = false);

  // The program, when it is built. Errors: BuildError, every time.
  cl_program get();
  // Whether it has been compiled and get() at most loads it.
  bool ready() const;

  BuildAhead(ProgramRequest request, bool beside);
  ~BuildAhead();

 private:
  friend class BuildList;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ocl
