// Files that other processes may read and write at the same time.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string_view>

namespace ocl {

// Writes `parts`, one behind the other, under a temporary name with the process id and renames the result to `target`:
// readers see the old file, none or the whole new one. The file and the folders that were missing are the user's alone
// (os::make_private_folder). False when nothing was written; never
// throws.
bool write_atomically(const std::filesystem::path& target, std::initializer_list<std::string_view> parts) noexcept;

}  // namespace ocl
