// The process that works for this one with a driver of its own (compiler_main.cpp), an executable beside the library.
// It compiles programs ahead (build_ahead.h), and it tries what a driver may not survive: its death is an answer.
#pragma once

#include "base/os.h"
#include "opencl/program/program_build.h"

#include <string>

namespace ocl {

class CompilerProcess {
 public:
  // Whether there is such an executable. False in the compiler process itself, which has nobody to ask.
  static bool exists() { return !inside() && !path().empty(); }
  // Whether this process is one.
  static bool inside() { return inside_; }
  static void enter() { inside_ = true; }

  // Asks it to compile into the disk cache: yes, the program is there.
  void build(const ProgramRequest& request) { ask("build", request); }
  // Asks it to compile: yes, the driver has survived it. The program is in the disk cache, where that can be written.
  void attempt(const ProgramRequest& request) { ask("attempt", request); }
  // Asks it a question about a device (probe_names in capabilities/probes.h, or functions_question).
  void ask(const Device& device, const std::string& question);
  // Whether kernels can be called as functions (cpu/kernel_function.h). The process then ends as others do, through the
  // exit handlers of its drivers.
  static constexpr const char* functions_question = "functions";

  // Of the requests in their order; waits for it. unable: the process has not got this device of this driver.
  enum class Answer { no, yes, unable, gone };
  Answer answer();
  // False when a request ended the process, or it could not be started.
  bool alive() const { return alive_; }
  // Says that there are no more requests: it ends behind the last one. Its answers can still be read.
  void last() { process_.finish_writing(); }
  // How it ended, and waits for that if necessary.
  os::ChildProcess::End end() { return process_.end(patience); }
  const std::string& end_text() const { return process_.end_text(); }

 private:
  static constexpr double patience = 60;  // seconds
  static const std::string& path();
  void ask(const char* what, const ProgramRequest& request);

  static inline bool inside_ = false;
  os::ChildProcess process_{path()};
  bool alive_ = true;
};

}  // namespace ocl
