#include "opencl/program/kept_answers.h"

#include "base/atomic_file.h"
#include "opencl/program/program_cache.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace ocl::kept_answers {

static std::filesystem::path path_of(const std::string& key) {
  return std::filesystem::path(program_cache::folder()) / "answers" / key;
}

std::optional<std::string> get(const std::string& key) {
  if (!program_cache::enabled()) return std::nullopt;
  const std::filesystem::path path = path_of(key);
  if (!program_cache::trusted(path.string())) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string answer{std::istreambuf_iterator<char>(file), {}};
  return answer.empty() ? std::nullopt : std::optional(std::move(answer));
}

void keep(const std::string& key, const std::string& answer) noexcept {
  if (program_cache::enabled()) write_atomically(path_of(key), {answer});
}

}  // namespace ocl::kept_answers
