// Which nodes become one: pure, on numbers.
#pragma once

#include <vector>

namespace ocl::ort {

// A node in topological order: the nodes before it whose results it reads, and whether the device runs it.
struct Vertex {
  std::vector<int> producers;
  bool runs = false;
};

// Groups of nodes that run, as few as the level of a node allows: 0 without a node before it that does not run, and one
// more behind every such node. No path between two nodes of a group leaves it: a node outside of it that is behind one
// has at least its level, and what runs behind that has a higher one.
std::vector<std::vector<int>> partition(const std::vector<Vertex>& graph);

}  // namespace ocl::ort
