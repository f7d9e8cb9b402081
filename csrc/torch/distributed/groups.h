// What the Python glue calls of this folder.
#pragma once

#include <string>

#pragma GCC visibility push(default)

namespace ocl::distributed {

// `name`: of a group that c10d::register_process_group knows and that has a backend for the CPU, Gloo's. It gets one
// for the device (process_group.h).
void add_to_process_group(std::string name);
void close_process_groups();

}  // namespace ocl::distributed

#pragma GCC visibility pop
