// Files on Windows: folders of caches, who may read and write what (by access control lists), locks between processes.
#include "base/os.h"

#include "base/os_windows.h"

#include <aclapi.h>
#include <sddl.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

namespace ocl::os {

namespace fs = std::filesystem;

namespace {

struct FreeLocal {
  void operator()(void* memory) const { LocalFree(memory); }
};
template <class T>
using Local = std::unique_ptr<T, FreeLocal>;

// TOKEN_USER of this process, with the identifier behind it; empty: unknown.
const std::vector<char>& user() {
  static const auto& token_user = *new std::vector<char>([] {
    std::vector<char> result;
    HANDLE token = nullptr;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token)) return result;
    const Handle owner(token);
    DWORD bytes = 0;
    GetTokenInformation(token, TokenUser, nullptr, 0, &bytes);
    result.resize(bytes);
    if (!GetTokenInformation(token, TokenUser, result.data(), bytes, &bytes)) result.clear();
    return result;
  }());
  return token_user;
}

PSID user_id() { return user().empty() ? nullptr : reinterpret_cast<const TOKEN_USER*>(user().data())->User.Sid; }

std::wstring user_text() {
  wchar_t* text = nullptr;
  if (!user_id() || !ConvertSidToStringSidW(user_id(), &text)) return {};
  const Local<wchar_t> owner(text);
  return text;
}

// The user, administrators and the system.
bool trusted(PSID who) {
  return (user_id() && EqualSid(who, user_id())) || IsWellKnownSid(who, WinBuiltinAdministratorsSid) ||
         IsWellKnownSid(who, WinLocalSystemSid) || IsWellKnownSid(who, WinCreatorOwnerSid);
}

constexpr DWORD changing = FILE_WRITE_DATA | FILE_APPEND_DATA | FILE_DELETE_CHILD | DELETE | WRITE_DAC | WRITE_OWNER |
                           GENERIC_WRITE | GENERIC_ALL;

bool only_trusted_write(PACL list) {
  if (!list) return false;  // no list allows everything
  for (DWORD i = 0; i < list->AceCount; ++i) {
    void* entry = nullptr;
    if (!GetAce(list, i, &entry)) return false;
    const auto& header = *static_cast<ACE_HEADER*>(entry);
    if (header.AceType != ACCESS_ALLOWED_ACE_TYPE || (header.AceFlags & INHERIT_ONLY_ACE)) continue;
    auto& allowed = *static_cast<ACCESS_ALLOWED_ACE*>(entry);
    if ((allowed.Mask & changing) && !trusted(&allowed.SidStart)) return false;
  }
  return true;
}

// Everything for the user, administrators and the system, nothing for others; nullptr: it cannot be said.
Local<void> private_descriptor(bool folder) {
  const std::wstring who = user_text();
  if (who.empty()) return nullptr;
  const std::wstring rights = folder ? L"(A;OICI;FA;;;" : L"(A;;FA;;;";
  const std::wstring text = L"D:P" + rights + who + L")" + rights + L"SY)" + rights + L"BA)";
  PSECURITY_DESCRIPTOR result = nullptr;
  if (!ConvertStringSecurityDescriptorToSecurityDescriptorW(text.c_str(), SDDL_REVISION_1, &result, nullptr))
    return nullptr;
  return Local<void>(result);
}

// An environment variable as a path; empty where it is not set.
fs::path folder_in(const wchar_t* variable) {
  const wchar_t* value = _wgetenv(variable);
  return value ? fs::path(value) : fs::path();
}

bool can_write(const fs::path& folder) {
  const fs::path file = folder / (".writable-" + std::to_string(process_id()) + "-" + std::to_string(thread_id()));
  const HANDLE made = CreateFileW(file.c_str(), GENERIC_WRITE, 0, nullptr, CREATE_NEW,
                                  FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, nullptr);
  const Handle owner(made);
  return made != INVALID_HANDLE_VALUE;
}

}  // namespace

std::string temporary_cache_folder() {
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  fs::path folder = (error ? fs::path("C:\\Temp") : temporary) / "cache-";
  folder += user_text();
  return folder.string();
}

std::string user_cache_folder() {
  fs::path folder = folder_in(L"XDG_CACHE_HOME");
  if (folder.empty()) folder = folder_in(L"LOCALAPPDATA");
  if (folder.empty()) return temporary_cache_folder();
  make_private_folder(folder.string());
  return can_write(folder) ? folder.string() : temporary_cache_folder();
}

bool others_keep_off(const std::string& path) noexcept {
  try {
    PSID owner = nullptr;
    PACL list = nullptr;
    PSECURITY_DESCRIPTOR descriptor = nullptr;
    const DWORD failure = GetNamedSecurityInfoW(const_cast<wchar_t*>(fs::path(path).c_str()), SE_FILE_OBJECT,
                                                OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION, &owner, nullptr,
                                                &list, nullptr, &descriptor);
    if (failure == ERROR_FILE_NOT_FOUND || failure == ERROR_PATH_NOT_FOUND) return true;  // nothing that could be read
    const Local<void> freed(descriptor);
    return failure == ERROR_SUCCESS && owner && trusted(owner) && only_trusted_write(list);
  } catch (...) {  // no memory for the name
    return false;
  }
}

void make_private_folder(const std::string& path) noexcept {
  try {
    const Local<void> descriptor = private_descriptor(true);
    SECURITY_ATTRIBUTES attributes{sizeof attributes, descriptor.get(), FALSE};
    fs::path folder;
    for (const fs::path& part : fs::path(path)) {
      folder /= part;
      if (folder.has_relative_path()) CreateDirectoryW(folder.c_str(), &attributes);  // those that are there stay
    }
  } catch (...) {  // no memory for the names: the folder is missing, as where it may not be made
    return;
  }
}

void make_private_file(const std::string& path) noexcept {
  try {
    if (const Local<void> descriptor = private_descriptor(false))
      SetFileSecurityW(fs::path(path).c_str(), DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION,
                       descriptor.get());
  } catch (...) {  // no memory for the name: the file keeps the rights of its folder
    return;
  }
}

FileLock::FileLock(const std::string& path, double seconds) noexcept {
  try {
    make_private_folder(fs::path(path).parent_path().string());
    const HANDLE file = CreateFileW(fs::path(path).c_str(), GENERIC_READ | GENERIC_WRITE,
                                    FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr, OPEN_ALWAYS,
                                    FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OPEN_REPARSE_POINT, nullptr);
    if (file == INVALID_HANDLE_VALUE) return;
    file_ = number_of(file);
  } catch (...) {  // no memory for the name
    return;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  OVERLAPPED begin{};
  while (
      !(held_ = LockFileEx(handle_of(file_), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &begin))) {
    if (GetLastError() != ERROR_LOCK_VIOLATION && GetLastError() != ERROR_IO_PENDING) return;
    waited_ = true;
    if (std::chrono::steady_clock::now() > deadline) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

FileLock::~FileLock() {
  if (file_ < 0) return;
  OVERLAPPED begin{};
  if (held_) UnlockFileEx(handle_of(file_), 0, 1, 0, &begin);
  CloseHandle(handle_of(file_));
}

}  // namespace ocl::os
