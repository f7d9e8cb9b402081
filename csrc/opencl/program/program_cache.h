// The disk cache of compiled programs.
//
// Folder: TORCH_OCL_CACHE_DIR, otherwise <user cache folder>/torch_ocl; programs lie in programs/<key>.bin (others use
// it, too: answers/, tuning). Key: 32 hexadecimal digits, a 128-bit FNV-1a-style hash of
//   format number, platform name and version, device name, device version, driver version, build options, complete
//   source text.
// File: magic "OCLP", uint32 format, uint64 payload bytes, uint64 payload hash, then the payload (what
// CL_PROGRAM_BINARIES gave).
//   Integers are little endian. A file whose size, magic, format or hash is wrong is ignored and later replaced.
// Concurrency: files are written under a temporary name with the process id and renamed; readers see all or nothing.
// Two
//   processes that build the same program take turns (build_turn) and otherwise both write the same file.
// What lies here runs inside of the process. A folder or file that another user than this process's and the
//   administrator owns, or that group or others may write, is neither read nor written: one warning.
// A cache that cannot be read or written only costs time. Bump `format` when the file layout or the meaning of the key
// changes.
#pragma once

#include "opencl/device.h"
#include "base/os.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ocl::program_cache {

inline constexpr uint32_t format = 1;

bool enabled();
std::string folder();  // may not exist
// Whether a file of the cache may be read: others keep off it (os::others_keep_off). Otherwise warns once.
bool trusted(const std::string& path);
// 32 hexadecimal digits of a 128-bit FNV-1a-style hash of these texts.
std::string hash(std::span<const std::string> parts);
std::string key(const Device& device, const std::string& options, const std::string& source);
std::optional<std::vector<unsigned char>> read(const std::string& key);
bool write(const std::string& key, const std::vector<unsigned char>& binary) noexcept;  // whether it is there now
// Of a built program, whatever that costs; empty: the driver does not give it.
std::vector<unsigned char> binary_of(cl_program program);
void remove(const std::string& key) noexcept;

// Held while a program is loaded or compiled: processes that want the same one take turns. Drivers with a cache of
// their own are not safe there. PoCL removes a program's bitcode (up to version 5) and the files of a binary that it
// unpacks, to write them anew, when two processes come to it at once; a third one that reads in between crashes or
// fails to build. And what the first process compiled and could write at once, the next one loads. The locks lie in
// <user cache folder>/torch_ocl/locks, wherever the cache itself is: the driver's cache is the user's, too.
os::FileLock build_turn(const std::string& key);

// Writes the binary of a built program that lives for ever: at once where the driver just hands it out. A driver that
// compiles lazily (PoCL: per kernel, at its first launch) compiles every kernel of the program in a general form when
// asked for the binary, which more than doubles the first step; there the programs wait for write_postponed().
void keep(const Device& device, cl_program program, const std::string& key);

// Writes the programs that wait, the latest first, for about as long as is said; returns how many still wait. What is
// not written takes its turn in later processes, meanwhile the driver's own cache serves. For the end of a process, but
// before exit(): after it the driver's compiler may have destroyed what it needs (LLVM in PoCL has). Python's exit
// handler calls it; a C++ program may, as its last use of the device.
size_t write_postponed(double seconds);

struct State {
  size_t files = 0, bytes = 0;
  bool writable = false;
};
State state();
void clear();

}  // namespace ocl::program_cache
