#include "base/atomic_file.h"

#include "base/os.h"

#include <atomic>
#include <fstream>
#include <string>

namespace ocl {

namespace fs = std::filesystem;

bool write_atomically(const fs::path& target, std::initializer_list<std::string_view> parts) noexcept {
  try {
    static std::atomic<unsigned> serial{0};
    std::error_code failure;
    os::make_private_folder(target.parent_path().string());
    fs::path temporary = target;
    temporary += "." + std::to_string(os::process_id()) + "." + std::to_string(serial++) + ".tmp";
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    os::make_private_file(temporary.string());
    for (std::string_view part : parts) file.write(part.data(), static_cast<std::streamsize>(part.size()));
    file.close();
    failure.clear();
    if (file) fs::rename(temporary, target, failure);
    if (file && !failure) return true;
    fs::remove(temporary, failure);
  } catch (...) {  // no memory for the names: as good as a disk that is full
    return false;
  }
  return false;
}

}  // namespace ocl
