// What cmake/Ahead.cmake runs to compile kernels ahead of time (ahead_library.h):
//   torch_ocl_ahead write LIST FOLDER   writes FOLDER/LEVEL/N.cl for every level and the Nth program of the list
//   torch_ocl_ahead seal FILE           marks a library as complete
// A list has, for each program, a line "== " and the kernel file, then the definitions. The library writes it
// (TORCH_OCL_RECORD_PROGRAMS).
#include "cpu/ahead_library.h"
#include "opencl/program/program.h"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace ocl;

namespace {

struct Listed {
  std::string file, defines;
};

std::vector<Listed> read_list(const std::string& path) {
  std::vector<Listed> list;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("== "))
      list.push_back({line.substr(3), {}});
    else if (!list.empty())
      list.back().defines += line + "\n";
  return list;
}

// A file that stays as it is keeps its time, so that nothing is compiled again.
void write_if_different(const std::filesystem::path& path, const std::string& text) {
  std::ifstream old(path, std::ios::binary);
  if (old && std::string(std::istreambuf_iterator<char>(old), {}) == text) return;
  std::filesystem::create_directories(path.parent_path());
  if (!(std::ofstream(path, std::ios::binary) << text << std::flush))
    throw std::runtime_error(path.string() + " cannot be written");
}

void write(const std::string& list, const std::filesystem::path& folder) {
  const std::vector<Listed> programs = read_list(list);
  for (const ahead::Level& level : ahead::levels)
    for (size_t i = 0; i < programs.size(); ++i) {
      const std::string text = ahead::text(level, programs[i].defines + expanded_source(programs[i].file));
      write_if_different(folder / level.name / (std::to_string(i) + ".cl"), ahead::name_line(ahead::key(text)) + text);
    }
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 2 ? words[1] : "";
  try {
    if (what == "write" && count == 4)
      write(words[2], words[3]);
    else if (what == "seal" && count == 3)
      ahead::seal(words[2]);
    else
      return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "torch_ocl_ahead: %s\n", error.what());
    return 1;
  }
  return 0;
}
