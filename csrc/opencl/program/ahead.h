// Programs whose kernels were compiled ahead of time, when the library was built, for CPU devices whose kernels are
// called as functions (Device::calls_kernels): no driver compiles them. Defined in csrc/cpu (cpu/ahead_library.h says
// how they are made and found).
#pragma once

#include <cstdint>
#include <string>

namespace ocl {

class Device;
class Kernel;

namespace ahead {

// The name by which call() knows the program that is this text, definitions first; empty where nothing is compiled
// ahead for the device.
std::string program(const Device& device, const std::string& source);
// What clang was given for it.
std::string text(const Device& device, const std::string& source);
// Has launches of the kernel, which has no program of the driver's, call the function of this program. False: there is
// none.
bool call(Kernel& kernel, const std::string& program);

// For the doctor: which library serves and how many kernels of it this process has taken, or why none does.
std::string state();

}  // namespace ahead

}  // namespace ocl
