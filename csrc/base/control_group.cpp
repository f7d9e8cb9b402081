#include "base/control_group.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

namespace ocl::control_group {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// mountinfo writes spaces and the like as three octal digits behind a backslash.
std::string unescape(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      result += static_cast<char>((text[i + 1] - '0') << 6 | (text[i + 2] - '0') << 3 | (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

struct Mount {
  std::string group;  // the group whose folder is mounted
  std::string point;
};

// Where a hierarchy is mounted: version 2, or the one of version 1 with this controller.
std::vector<Mount> mounts(const std::string& root, bool version_2, const std::string& controller) {
  std::vector<Mount> result;
  std::ifstream lines(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(lines, line);) {
    // id parent device group point options [fields] - type source options
    const size_t middle = line.find(" - ");
    if (middle == std::string::npos) continue;
    const auto left = split(line.substr(0, middle), ' '), right = split(line.substr(middle + 3), ' ');
    if (left.size() < 5 || right.size() < 3 || right[0] != (version_2 ? "cgroup2" : "cgroup")) continue;
    if (version_2 || contains(split(right[2], ','), controller))
      result.push_back({unescape(left[3]), unescape(left[4])});
  }
  return result;
}

// The path of this process's group in such a hierarchy.
std::optional<std::string> group_path(const std::string& root, bool version_2, const std::string& controller) {
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version_2 ? line.starts_with("0::") : contains(split(controllers, ','), controller))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

// The part of `path` below `group`; nothing: it lies outside, as in a container that sees only its own group.
std::optional<std::string> below(const std::string& path, const std::string& group) {
  if (path.find("/..") != std::string::npos) return std::nullopt;
  if (group == "/") return path == "/" ? "" : path;
  if (!path.starts_with(group)) return std::nullopt;
  const std::string rest = path.substr(group.size());
  return rest.empty() || rest[0] == '/' ? std::optional(rest) : std::nullopt;
}

// The folders of this process's group and of those around it, from the inside out.
std::vector<fs::path> folders(const std::string& root, bool version_2, const std::string& controller) {
  const std::optional<std::string> path = group_path(root, version_2, controller);
  if (!path) return {};
  for (const Mount& mount : mounts(root, version_2, controller)) {
    const std::string point = root + mount.point;
    std::string inner = below(*path, mount.group).value_or("");
    std::error_code missing;
    if (!fs::is_directory(point, missing)) continue;
    std::vector<fs::path> result;
    for (;; inner.resize(inner.rfind('/'))) {
      while (!inner.empty() && inner.back() == '/') inner.pop_back();
      if (const fs::path folder = point + inner; fs::is_directory(folder, missing)) result.push_back(folder);
      if (inner.empty()) return result;
    }
  }
  return {};
}

// A number that stands alone in a file; nothing for "max", -1 and whatever else is no number.
std::optional<uint64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  long long value = -1;
  if (!(stream >> value) || value < 0) return std::nullopt;
  return static_cast<uint64_t>(value);
}

// The sum of the entries of a file of lines "name number" that have one of these names.
uint64_t sum_in(const fs::path& file, const std::vector<std::string>& names) {
  uint64_t sum = 0;
  std::ifstream stream(file);
  std::string name;
  for (uint64_t value; stream >> name >> value;)
    if (contains(names, name)) sum += value;
  return sum;
}

double quota_of(const fs::path& folder, bool version_2) {
  double quota = 0, period = 0;
  if (version_2) {
    std::ifstream file(folder / "cpu.max");
    if (!(file >> quota >> period)) return 0;
  } else {
    quota = static_cast<double>(number_in(folder / "cpu.cfs_quota_us").value_or(0));
    period = static_cast<double>(number_in(folder / "cpu.cfs_period_us").value_or(0));
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

uint64_t difference(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

// The kernel takes the pages of files back before it stops a group.
struct Names {
  const char *limit, *usage;
  std::vector<std::string> files;
};

Memory memory_of(const fs::path& folder, bool version_2, uint64_t free_swap) {
  static const Names* const names =
      new Names[2]{{"memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}},
                   {"memory.max", "memory.current", {"inactive_file", "active_file"}}};
  const Names& own = names[version_2];
  Memory result;
  const auto limit = number_in(folder / own.limit);
  if (!limit) return result;
  result.limit = *limit;
  const uint64_t usage = number_in(folder / own.usage).value_or(0),
                 files = std::min(usage, sum_in(folder / "memory.stat", own.files)),
                 unused = difference(*limit, usage - files);
  if (version_2) {
    const auto most = number_in(folder / "memory.swap.max");
    const uint64_t used = number_in(folder / "memory.swap.current").value_or(0);
    result.available = unused + (most ? std::min(free_swap, difference(*most, used)) : free_swap);
  } else {  // the second limit is of memory and swap space together
    const auto both = number_in(folder / "memory.memsw.limit_in_bytes");
    const uint64_t used = number_in(folder / "memory.memsw.usage_in_bytes").value_or(0);
    result.available = unused + free_swap;
    if (both) result.available = std::min(result.available, difference(*both, used - std::min(used, files)));
  }
  return result;
}

}  // namespace

double processors(const std::string& root) {
  double least = 0;
  for (const bool version_2 : {false, true})
    for (const fs::path& folder : folders(root, version_2, "cpu"))
      if (const double quota = quota_of(folder, version_2); quota > 0 && (least == 0 || quota < least)) least = quota;
  return least;
}

Memory memory(const std::string& root, uint64_t free_swap) {
  Memory result;
  for (const bool version_2 : {false, true})
    for (const fs::path& folder : folders(root, version_2, "memory")) {
      const Memory own = memory_of(folder, version_2, free_swap);
      result.limit = std::min(result.limit, own.limit);
      result.available = std::min(result.available, own.available);
    }
  return result;
}

}  // namespace ocl::control_group
