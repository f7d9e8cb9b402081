// Faults of drivers that tests ask for by TORCH_OCL_INJECT: on a machine whose drivers have none, the ways around them
// would never be run. A list of items, commas between them:
//   exit:FILE, abort:FILE, segv:FILE   compiling a program of kernels_cl/FILE ends the process so, in whatever process
//   unclean_exit                       a process that has called kernels as functions aborts at its end
//   unpinned                           compiled code lies in no library that could be kept loaded
//   unfamiliar                         no driver is one whose compiler is known to be survived
#pragma once

#include <string_view>

namespace ocl::injected_faults {

// Whether the item is in the list.
bool has(std::string_view item);

// Ends this process where the list has an item for compiling this file.
void compiling(std::string_view file);

}  // namespace ocl::injected_faults
