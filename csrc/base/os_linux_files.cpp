// Files on Linux: folders of caches, who may read and write what, locks between processes.
#include "base/os.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace ocl::os {

std::string temporary_cache_folder() {
  const char* temporary = std::getenv("TMPDIR");
  return std::string(temporary && *temporary ? temporary : "/tmp") + "/cache-" + std::to_string(geteuid());
}

std::string user_cache_folder() {
  std::string folder;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg)
    folder = xdg;
  else if (const char* home = std::getenv("HOME"); home && *home)
    folder = std::string(home) + "/.cache";
  if (folder.empty()) return temporary_cache_folder();
  make_private_folder(folder);
  return faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? folder : temporary_cache_folder();
}

bool others_keep_off(const std::string& path) noexcept {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return true;  // nothing that could be read
  return (facts.st_uid == geteuid() || facts.st_uid == 0) && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

void make_private_folder(const std::string& path) noexcept {
  try {
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      mkdir(path.substr(0, end).c_str(), 0700);  // those that are there stay as they are
      if (end == std::string::npos) break;
    }
  } catch (...) {  // no memory for the names: the folder is missing, as where it may not be made
    return;
  }
}

void make_private_file(const std::string& path) noexcept { chmod(path.c_str(), S_IRUSR | S_IWUSR); }

FileLock::FileLock(const std::string& path, double seconds) noexcept {
  make_private_folder(std::filesystem::path(path).parent_path().string());
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  file_ = file;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!(held_ = flock(file, LOCK_EX | LOCK_NB) == 0)) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    waited_ = true;
    if (std::chrono::steady_clock::now() > deadline) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

FileLock::~FileLock() {
  if (file_ < 0) return;
  if (held_) flock(static_cast<int>(file_), LOCK_UN);  // closing would not free it while a forked child holds a copy
  close(static_cast<int>(file_));
}

}  // namespace ocl::os
