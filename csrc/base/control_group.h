// What the control groups (cgroups) of this process allow it: Linux's limits of containers, of batch systems and of
// systemd. Versions 1 and 2 are read, also both at once. A group is limited by itself and by all groups around it, as
// far as they are visible in the mounted hierarchy; on other systems, and where nothing can be read, there is no limit.
//
// `root` is put before every path that is read: tests give a folder of their own.
#pragma once

#include <cstdint>
#include <string>

namespace ocl::control_group {

// Processors' worth of time (1.5: three halves of a processor); 0: no limit.
double processors(const std::string& root = "");

constexpr uint64_t no_limit = UINT64_MAX;

struct Memory {
  uint64_t limit = no_limit;  // bytes that the group may use
  uint64_t available =
      no_limit;  // of these, bytes that are unused or hold files' contents; with the group's swap space
};

// `free_swap`: bytes of swap space that the system has free.
Memory memory(const std::string& root = "", uint64_t free_swap = 0);

}  // namespace ocl::control_group
