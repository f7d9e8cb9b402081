#include "onnxruntime/partition.h"

#include <algorithm>
#include <cstddef>

namespace ocl::ort {

std::vector<std::vector<int>> partition(const std::vector<Vertex>& graph) {
  std::vector<int> level(graph.size(), 0);
  std::vector<std::vector<int>> groups;
  for (size_t i = 0; i < graph.size(); ++i) {
    for (const int p : graph[i].producers)
      level[i] = std::max(level[i], level[p] + (graph[i].runs && !graph[p].runs ? 1 : 0));
    if (!graph[i].runs) continue;
    if (groups.size() <= static_cast<size_t>(level[i])) groups.resize(static_cast<size_t>(level[i]) + 1);
    groups[static_cast<size_t>(level[i])].push_back(static_cast<int>(i));
  }
  std::erase_if(groups, [](const std::vector<int>& group) { return group.empty(); });
  return groups;
}

}  // namespace ocl::ort
