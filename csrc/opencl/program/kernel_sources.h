// The files of kernels_cl/, embedded at build time (cmake/embed_kernels.cmake).
#pragma once

#include <span>
#include <string_view>

namespace ocl {

struct KernelFile {
  std::string_view name;  // path below kernels_cl/, "common/types.clh"
  std::string_view text;
};

std::span<const KernelFile> embedded_kernel_files();

}  // namespace ocl
