// Who may read and write what: folders and files of caches.
#include "base/os.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#if defined(_WIN32)
#include "base/os_windows.h"

#include <sddl.h>
#endif

namespace ocl {
namespace {

namespace fs = std::filesystem;

class PrivateFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("private_files_" + std::to_string(os::process_id()) +
                                                ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Lets everybody write.
  static void open_to_all(const fs::path& path) {
#if defined(_WIN32)
    PSECURITY_DESCRIPTOR all = nullptr;
    ASSERT_TRUE(
        ConvertStringSecurityDescriptorToSecurityDescriptorW(L"D:P(A;;FA;;;WD)", SDDL_REVISION_1, &all, nullptr));
    EXPECT_TRUE(SetFileSecurityW(path.c_str(), DACL_SECURITY_INFORMATION, all));
    LocalFree(all);
#else
    fs::permissions(path, fs::perms::others_write | fs::perms::group_write, fs::perm_options::add);
#endif
  }
  fs::path folder_;
};

TEST_F(PrivateFiles, FoldersAreMadeForOneUser) {
  const fs::path inner = folder_ / "a folder" / "b";
  os::make_private_folder(inner.string());
  ASSERT_TRUE(fs::is_directory(inner));
  EXPECT_TRUE(os::others_keep_off(inner.string()));
  EXPECT_TRUE(os::others_keep_off(inner.parent_path().string()));
  open_to_all(inner);
  EXPECT_FALSE(os::others_keep_off(inner.string()));
  os::make_private_folder(inner.string());  // what is there stays as it is
  EXPECT_FALSE(os::others_keep_off(inner.string()));
}

TEST_F(PrivateFiles, FilesAreTakenFromOthers) {
  os::make_private_folder(folder_.string());
  const fs::path file = folder_ / "file";
  std::ofstream(file) << "text";
  open_to_all(file);
  EXPECT_FALSE(os::others_keep_off(file.string()));
  os::make_private_file(file.string());
  EXPECT_TRUE(os::others_keep_off(file.string()));
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "text");
}

TEST_F(PrivateFiles, WhatIsMissingIsNobodys) { EXPECT_TRUE(os::others_keep_off((folder_ / "none").string())); }

TEST_F(PrivateFiles, CacheFoldersAreTheUsersOwn) {
  EXPECT_TRUE(fs::path(os::user_cache_folder()).is_absolute());
  const std::string temporary = os::temporary_cache_folder();
  EXPECT_TRUE(fs::path(temporary).is_absolute());
  EXPECT_NE(fs::path(temporary).filename().string(), "cache-");
}

}  // namespace
}  // namespace ocl
