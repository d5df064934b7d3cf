#include "base/folder_names.h"

#include <filesystem>

#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status.h"

namespace mtrun {
namespace {

TEST(FolderNames, AreSortedAndIncludeHiddenOnes) {
  const std::string folder = *MakeTemporaryFolder("mtrun-names-");
  for (const char* name : {"b", "a", ".c"}) ASSERT_TRUE(MakeFolders(folder + "/" + name + "/inner").ok());
  EXPECT_THAT(NamesIn(folder), testing::ElementsAre(".c", "a", "b"));
  EXPECT_THAT(*ListNames(folder), testing::ElementsAre(".c", "a", "b"));
  std::filesystem::remove_all(folder);
}

TEST(FolderNames, MissingFolderIsEmptyOrAnError) {
  std::error_code error;
  EXPECT_THAT(NamesIn("/nowhere"), testing::IsEmpty());
  EXPECT_THAT(NamesIn("/nowhere", &error), testing::IsEmpty());
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
  EXPECT_THAT(ListNames("/nowhere"),
              support::StatusIs(absl::StatusCode::kNotFound, "list /nowhere: No such file or directory"));
}

}  // namespace
}  // namespace mtrun
