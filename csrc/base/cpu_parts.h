// The parts that the processors of this process are cut into, each of them a device of its own
// (TORCH_OCL_DEVICES_PER_CPU): by number, or one for each NUMA node.
//
// A part is a list of processors. Cut by number, threads of one core stay together and so do processors of one node, as
// far as the numbers allow. The threads of a part's pool run on its processors only, so memory that they touch first
// lies on their node.
#pragma once

#include "base/processors.h"

#include <string>
#include <vector>

namespace ocl::cpu_parts {

struct Part {
  unsigned index = 0, count = 1;
  int node = -1;                // the NUMA node that it is; -1: cut by number
  std::vector<int> processors;  // in ascending order; empty where the system does not number them
  unsigned threads = 1;         // that run kernels: its share of what processors.h decides; 0: the drivers' threads
};

// One processor of the machine.
struct Processor {
  int number = 0, node = 0, package = 0, core = 0;
};

// Of these processors, from Linux's /sys; elsewhere they are on one node, each a core of its own. `root`: as in
// control_group.h.
std::vector<Processor> describe(const std::vector<int>& numbers, const std::string& root = "");
// "0-2,8" -> {0, 1, 2, 8}, and back. What is no such list is left out.
std::vector<int> numbers_of(const std::string& list);
std::string list_of(const std::vector<int>& numbers);

// Pure. `count` parts whose sizes differ by at most one; where there are fewer processors, parts share them.
std::vector<Part> equally(std::vector<Processor> processors, unsigned count);
// Pure. One part for each node.
std::vector<Part> by_node(const std::vector<Processor>& processors);
// Pure. What decides the threads of a part: its share of the limits of the whole process. Of several local ranks, the
// K-th uses part K modulo the number of parts, so only those of the same part share its processors.
processors::Facts facts_of(const processors::Facts& whole, const Part& part);

// Of this process, read once; empty: CPUs are not cut. Warns once where the variable's value is not accepted or there
// are fewer processors than parts.
const std::vector<Part>& all();
// Why there are none, for the doctor, though somebody wants them; otherwise empty.
const std::string& why_none();

}  // namespace ocl::cpu_parts
