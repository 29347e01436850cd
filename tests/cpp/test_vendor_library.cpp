// Libraries of other vendors are found in the folders that the front end names.
#include "flambeau/tensor/vendor_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace flambeau {
namespace {

TEST(VendorLibrary, IsFoundInTheFoldersThatWereNamed) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "vendor_library_test";
  std::filesystem::create_directories(folder);
  const auto link = folder / "libof_a_vendor.so.1";
  std::filesystem::remove(link);
  Dl_info here;
  ASSERT_TRUE(dladdr(reinterpret_cast<void*>(&open_vendor_library), &here));
  std::filesystem::create_symlink(std::filesystem::absolute(here.dli_fname), link);

  EXPECT_EQ(open_vendor_library("libof_a_vendor.so.1"), nullptr);
  set_vendor_folders({"/no/such/folder", folder.string()});
  EXPECT_NE(open_vendor_library("libof_a_vendor.so.1"), nullptr);
  set_vendor_folders({});
  EXPECT_EQ(open_vendor_library("libno_vendor_has_this.so.1"), nullptr);
}

}  // namespace
}  // namespace flambeau
