// Kernels that are compiled ahead of time by clang, as functions (kernel_function.h) of a shared library beside the
// operator library, one for each level of x86-64. cmake/Ahead.cmake builds them from the list of programs in
// kernels_cl/ahead/programs.txt; what is not listed is compiled by the driver.
//
// Key: 32 hexadecimal digits, a hash of `format` and the whole text that clang was given, as this library would give it
// now. It is part of the names of a program's functions: those of a program whose kernel file, definitions or entry
// points have changed since are not found.
//
// File: an ELF library, behind which stand 24 bytes: the magic number "OCLAHEAD", the bytes before it and their hash,
// uint64, little endian. A file that is not so is not loaded: what is mapped beyond a file's end would end the process.
// Bump `format` when the functions' parameters or the options of clang change in a way that the text does not show.
#pragma once

#include "cpu/kernel_function.h"

#include <array>
#include <cstdint>
#include <string>

namespace ocl::ahead {

inline constexpr uint32_t format = 1;

struct Level {
  const char* name;       // as -march= and the file's name have it
  bool narrow_registers;  // NARROW_REGISTERS of its programs
};
inline constexpr std::array<Level, 2> levels{{{"x86-64-v3", true}, {"x86-64-v4", false}}};

// Whether this processor has what the level needs.
bool runs(const Level& level);

// The text that clang compiles, without its first line, which defines AHEAD_NAME for the key of the text.
std::string text(const Level& level, const std::string& program);
std::string key(const std::string& text);
// That line.
std::string name_line(const std::string& key);

class Library {
 public:
  // Does not throw: problem() says why the file is not used.
  explicit Library(const std::string& path);
  const std::string& path() const { return path_; }
  const std::string& problem() const { return problem_; }
  // Null: the library has none.
  KernelFunction find(const std::string& key, const std::string& kernel) const;

 private:
  std::string path_, problem_;
  void* handle_ = nullptr;
};

// Writes what stands behind the file. Errors: std::runtime_error.
void seal(const std::string& path);

}  // namespace ocl::ahead
