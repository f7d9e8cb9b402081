// How one program gets built; for program.cpp, build_ahead.cpp and the compiler process. Users of programs need
// program.h only.
#pragma once

#include "opencl/device.h"

#include <string>

namespace ocl {

// All that determines a program, and what it is called in messages. The cache's key is that of
// program_cache::key(device, options, source).
struct ProgramRequest {
  Device* device = nullptr;
  std::string file, key, options, source;
  std::string kernel, defines;  // the first that was asked for; for messages
};

// From the disk cache; nullptr: it is not there, or the driver did not take it.
cl_program load_program(const ProgramRequest& request);
// By the driver of this process. Errors: BuildError.
cl_program compile_program(const ProgramRequest& request);
// Takes turns with other processes, loads or compiles, and keeps what was compiled; on a guarded device another process
// compiles it first. Errors: BuildError.
cl_program load_or_compile_program(const ProgramRequest& request);

// Writes the source into the folder; returns the path.
std::string dump_source(const std::string& folder, const ProgramRequest& request);
// "FILE, kernel NAME, defines: A=1 B=x", for messages.
std::string description(const ProgramRequest& request);

// Seconds that somebody waited for programs being compiled: when they are many, the user is told once.
void announce_wait(const Device& device, double seconds);

}  // namespace ocl
