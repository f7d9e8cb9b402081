// Kernels that were compiled ahead of time, as the build has them beside this program.
#include "cpu/ahead_library.h"

#include "base/os.h"
#include "opencl/program/program.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

using namespace ocl;

namespace {

std::string path_of(const ahead::Level& level) {
  return os::file_beside_library((std::string("libocl_ahead_") + level.name + ".so").c_str());
}

// Programs of kernels_cl/ahead/programs.txt: the file, and its text behind its definitions.
std::vector<std::pair<std::string, std::string>> listed_programs() {
  std::vector<std::pair<std::string, std::string>> programs;
  std::ifstream lines(OCL_SOURCE_FOLDER "/kernels_cl/ahead/programs.txt");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("== "))
      programs.emplace_back(line.substr(3), "");
    else
      programs.back().second += line + "\n";
  for (auto& [file, text] : programs) text += expanded_source(file);
  return programs;
}

// How many kernels of the program the library has. Some stand in branches that its definitions leave out.
int functions(const ahead::Library& library, const ahead::Level& level, const std::string& program) {
  const std::string text = ahead::text(level, program), key = ahead::key(text);
  const std::string_view mark = "__asm__(AHEAD_NAME(\"";
  int count = 0;
  for (size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + 1)) {
    const size_t begin = at + mark.size();
    count += library.find(key, text.substr(begin, text.find('"', begin) - begin)) != nullptr;
  }
  return count;
}

class AheadLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const ahead::Level& level : ahead::levels)
      if (ahead::runs(level) && !path_of(level).empty()) level_ = &level;
    if (!level_) GTEST_SKIP() << "no kernels are compiled ahead of time in this build, or none for this processor";
  }

  const ahead::Level* level_ = nullptr;
};

}  // namespace

TEST_F(AheadLibrary, HasTheListedProgramsAsTheyAreNow) {
  const ahead::Library library(path_of(*level_));
  ASSERT_EQ(library.problem(), "");
  const auto programs = listed_programs();
  ASSERT_FALSE(programs.empty());
  const ahead::Level& other = ahead::levels[level_ == &ahead::levels[0]];
  for (const auto& [file, program] : programs) {
    EXPECT_GT(functions(library, *level_, program), 0) << file;
    EXPECT_EQ(functions(library, *level_, program + "// changed\n"), 0) << file;
    EXPECT_EQ(functions(library, other, program), 0) << file << " of another level";
  }
}

TEST_F(AheadLibrary, DamagedFilesAreNotLoaded) {
  const auto folder = std::filesystem::temp_directory_path() / ("ocl_ahead_" + std::to_string(os::process_id()));
  std::filesystem::create_directories(folder);
  std::ifstream file(path_of(*level_), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(whole.size(), 4096u);
  std::string changed = whole, longer = whole + std::string(100, 'x');
  changed[whole.size() / 2] ^= 1;
  int number = 0;
  for (const std::string& data : {changed, longer, whole.substr(0, whole.size() / 2), std::string()}) {
    const auto path = folder / (std::to_string(number++) + ".so");
    std::ofstream(path, std::ios::binary) << data;
    EXPECT_NE(ahead::Library(path.string()).problem(), "") << path;
    EXPECT_EQ(ahead::Library(path.string()).find("0", "f"), nullptr);
  }
  std::ofstream(folder / "whole.so", std::ios::binary) << whole;
  EXPECT_EQ(ahead::Library((folder / "whole.so").string()).problem(), "");
  std::filesystem::remove_all(folder);
}
