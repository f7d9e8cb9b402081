#include "base/cpu_parts.h"

#include "base/environment.h"
#include "base/os.h"
#include "base/warning.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <tuple>

namespace ocl::cpu_parts {

namespace fs = std::filesystem;

namespace {

constexpr const char* variable = "TORCH_OCL_DEVICES_PER_CPU";
constexpr unsigned most = 64;

// [begin, end) of the index-th of `count` shares of `all`.
std::pair<size_t, size_t> share(size_t all, unsigned index, unsigned count) {
  return {all * index / count, all * (index + 1) / count};
}

// At least 1, for limits.
template <class Number>
unsigned share_of(Number all, const Part& part) {
  const auto [begin, end] = share(all, part.index, part.count);
  return std::max(1u, static_cast<unsigned>(end - begin));
}

int number_in(const fs::path& file, int otherwise) {
  int value = otherwise;
  std::ifstream(file) >> value;
  return value;
}

// {processor: node}
std::map<int, int> nodes(const fs::path& folder) {
  std::map<int, int> result;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with("node") || name.size() < 5 || name.find_first_not_of("0123456789", 4) != std::string::npos)
      continue;
    std::string list;
    std::getline(std::ifstream(it->path() / "cpulist"), list);
    for (const int number : numbers_of(list)) result[number] = std::stoi(name.substr(4));
  }
  return result;
}

struct Parts {
  std::vector<Part> parts;
  std::string why_none;
};

// The number in the variable; 0: there is none in it.
unsigned number(const std::string& value) {
  const bool digits = !value.empty() && value.size() < 4 && value.find_first_not_of("0123456789") == std::string::npos;
  const unsigned number = digits ? static_cast<unsigned>(std::stoul(value)) : 0;
  return number <= most ? number : 0;
}

Parts read() {
  std::string value = environment::get(variable).value_or("1");
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  const unsigned count = number(value);
  if (count == 1) return {};
  if (value != "numa" && count == 0) {
    environment::reject(variable, value, "1 to " + std::to_string(most) + ", or numa", "CPU devices are not cut");
    return {};
  }
  const std::vector<Processor> processors = describe(os::allowed_processor_numbers());
  Parts result;
  result.parts = count ? equally(processors, count) : by_node(processors);
  if (result.parts.size() < 2)
    return {{},
            std::string(variable) +
                "=numa: the processors of this process are on one NUMA node, so CPU devices are not cut"};
  if (!processors.empty() && processors.size() < result.parts.size())
    warn(std::string(variable) + "=" + value + " are more devices than this process has processors (" +
         std::to_string(processors.size()) + "): several share one");
  for (Part& part : result.parts) part.threads = processors::decide(facts_of(processors::facts(), part)).threads;
  return result;
}

const Parts& parts() {
  static const auto& instance = *new Parts(read());
  return instance;
}

}  // namespace

std::vector<int> numbers_of(const std::string& list) {
  std::vector<int> result;
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ',');) {
    std::istringstream range(item);
    int first = 0, last = 0;
    char dash = 0;
    if (!(range >> first)) continue;
    if (!(range >> dash >> last) || dash != '-') last = first;
    if (last - first < (1 << 16))
      for (int each = first; each <= last; ++each) result.push_back(each);
  }
  return result;
}

std::string list_of(const std::vector<int>& numbers) {
  std::string result;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    result += (i ? "," : "") + std::to_string(numbers[i]);
    if (end - i > 1) result += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return result;
}

std::vector<Processor> describe(const std::vector<int>& numbers, const std::string& root) {
  const fs::path system = fs::path(root.empty() ? "/" : root) / "sys/devices/system";
  const std::map<int, int> node_of = nodes(system / "node");
  std::vector<Processor> result;
  for (const int number : numbers) {
    const fs::path topology = system / "cpu" / ("cpu" + std::to_string(number)) / "topology";
    const auto node = node_of.find(number);
    result.push_back({number, node == node_of.end() ? 0 : node->second, number_in(topology / "physical_package_id", 0),
                      number_in(topology / "core_id", number)});
  }
  return result;
}

std::vector<Part> equally(std::vector<Processor> processors, unsigned count) {
  std::sort(processors.begin(), processors.end(), [](const Processor& a, const Processor& b) {
    return std::tie(a.node, a.package, a.core, a.number) < std::tie(b.node, b.package, b.core, b.number);
  });
  std::vector<Part> result(count);
  for (unsigned i = 0; i < count; ++i) {
    result[i].index = i, result[i].count = count;
    if (processors.empty()) continue;
    auto [begin, end] = share(processors.size(), i, count);
    end = std::max(end, begin + 1);
    for (size_t at = begin; at < end; ++at) result[i].processors.push_back(processors[at].number);
    std::sort(result[i].processors.begin(), result[i].processors.end());
  }
  return result;
}

std::vector<Part> by_node(const std::vector<Processor>& processors) {
  std::map<int, std::vector<int>> nodes;
  for (const Processor& each : processors) nodes[each.node].push_back(each.number);
  std::vector<Part> result;
  for (auto& [node, numbers] : nodes) {
    std::sort(numbers.begin(), numbers.end());
    Part part;
    part.index = static_cast<unsigned>(result.size()), part.count = static_cast<unsigned>(nodes.size());
    part.node = node, part.processors = std::move(numbers);
    result.push_back(std::move(part));
  }
  return result;
}

processors::Facts facts_of(const processors::Facts& whole, const Part& part) {
  processors::Facts facts = whole;
  facts.allowed = part.processors.empty() ? share_of(whole.allowed, part) : unsigned(part.processors.size());
  facts.machine = facts.allowed;
  // Of a node that is larger than the others, more of the time.
  facts.quota = whole.quota * facts.allowed / std::max(1u, whole.allowed);
  if (whole.asked > 0) facts.asked = share_of(whole.asked, part);
  const bool launchers_own = whole.ranks > 1 && whole.openmp == 1 && whole.torchrun;  // as processors.h
  facts.openmp = whole.openmp && !launchers_own ? share_of(whole.openmp, part) : 0;
  if (whole.driver) facts.driver = share_of(whole.driver, part);
  facts.ranks = 1, facts.rank = 0;
  if (whole.rank % part.count == part.index) {
    facts.ranks = (whole.ranks - part.index + part.count - 1) / part.count;
    facts.rank = whole.rank / part.count;
  }
  return facts;
}

const std::vector<Part>& all() { return parts().parts; }

const std::string& why_none() { return parts().why_none; }

}  // namespace ocl::cpu_parts
