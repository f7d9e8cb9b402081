// The process that works for this one with a driver of its own (csrc/opencl/program/compiler_main.cpp), an executable
// beside the library.
#pragma once

#include "base/os.h"
#include "opencl/program/program_build.h"

#include <string>

namespace ocl {

class CompilerProcess {
 public:
  // Whether there is such an executable.
  static bool exists() { return !path().empty(); }

  // Asks it to compile into the disk cache: answer() tells whether the program is there.
  void build(const ProgramRequest& request);
  // Whether kernels of the device with this index can be called as functions there (kernel_function.h).
  void test_functions(int device);
  // Of the last request; waits for it.
  bool answer();
  // False when the last request ended the process, or it could not be started.
  bool alive() const { return alive_; }
  // Then: whether a fault of its own ended it.
  bool faulted() { return process_.faulted(); }

  static constexpr const char* test_request = "test: kernels as functions";

 private:
  static const std::string& path();
  void ask(int device, const std::string& file, const std::string& key, const std::string& options,
           const std::string& source);

  os::ChildProcess process_{path()};
  bool alive_ = true;
};

}  // namespace ocl
