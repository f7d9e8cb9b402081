// The files of kernels_cl/, embedded at build time (cmake/embed_kernels.cmake).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ocl {

struct KernelFile {
  std::string_view name;  // path below kernels_cl/, "common/types.clh"
  std::string_view text;
};

std::span<const KernelFile> embedded_kernel_files();

// A kernel file that the host prints, so that a table of the host's stands once. `text` makes it, whenever a kernel is
// built that includes it.
struct PrintedKernelFile {
  std::string_view name;
  std::string (*text)();
};

// Beside the embedded files, which every program that links the library has: a table that registered itself would be
// left out of those that use nothing else of its object file, as the compiler process.
std::span<const PrintedKernelFile> printed_kernel_files();

}  // namespace ocl
