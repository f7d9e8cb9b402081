// The disk cache of compiled programs.
//
// Folder: TORCH_OCL_CACHE_DIR, otherwise <user cache folder>/torch_ocl; programs lie in programs/<key>.bin.
// Key: 32 hexadecimal digits, a 128-bit FNV-1a-style hash of
//   format number, platform name and version, device name, device version, driver version, build options, complete source text.
// File: magic "OCLP", uint32 format, uint64 payload bytes, uint64 payload hash, then the payload (what CL_PROGRAM_BINARIES gave).
//   Integers are little endian. A file whose size, magic, format or hash is wrong is ignored and later replaced.
// Concurrency: files are written under a temporary name with the process id and renamed; readers see all or nothing. Two
//   processes that build the same program both write the same file. No locks.
// A cache that cannot be read or written only costs time. Bump `format` when the file layout or the meaning of the key changes.
#pragma once

#include "opencl/device.h"

#include <optional>
#include <string>
#include <vector>

namespace ocl::program_cache {

inline constexpr uint32_t format = 1;

bool enabled();
std::string folder();  // may not exist
std::string key(const Device& device, const std::string& options, const std::string& source);
std::optional<std::vector<unsigned char>> read(const std::string& key);
void write(const std::string& key, const std::vector<unsigned char>& binary) noexcept;
void remove(const std::string& key) noexcept;

// Writes the binary of a built program that lives for ever: at once where the driver just hands it out. A driver that compiles lazily (PoCL:
// per kernel, at its first launch) compiles every kernel of the program in a general form when asked for the binary, which more than doubles
// the first step; there programs are written when the process exits, for about a second. The rest takes its turn in later processes;
// meanwhile the driver's own cache serves.
void keep(cl_program program, const std::string& key);

struct State {
  size_t files = 0, bytes = 0;
  bool writable = false;
};
State state();
void clear();

}  // namespace ocl::program_cache
