// What the Python glue calls of this folder.
#pragma once

#include <functional>
#include <string>

#pragma GCC visibility push(default)

namespace ocl::distributed {

// `name`: of a group that c10d::register_process_group knows and that has a backend for the CPU, Gloo's. It gets one
// for the device (process_group.h).
void add_to_process_group(const std::string& name);
void close_process_groups();

// Calls a function, without Python's lock (GIL) if the calling thread has it.
using WithoutGil = void (*)(const std::function<void()>&);
// From the glue, once; before that, and in programs without Python, a function is just called.
void set_without_gil(WithoutGil call);

}  // namespace ocl::distributed

#pragma GCC visibility pop
