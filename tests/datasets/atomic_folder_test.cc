#include "datasets/atomic_folder.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(AtomicFolderTest, AppearsOnlyWhenPublished) {
  const test::TempFolder folder;
  auto made = AtomicFolder::Create(folder / "a/b", false, "index.json");
  ASSERT_TRUE(made.ok()) << made.status();
  test::Write(made->path() + "/sub/file", "x");
  EXPECT_FALSE(fs::exists(folder / "a/b"));
  ASSERT_TRUE(made->Publish().ok());
  EXPECT_EQ(test::Read(folder / "a/b/sub/file"), "x");
  EXPECT_THAT(test::Names(folder / "a"), ElementsAre("b"));
}

TEST(AtomicFolderTest, VanishesUnlessPublished) {
  const test::TempFolder folder;
  {
    auto made = AtomicFolder::Create(folder / "b/", false, "index.json");
    ASSERT_TRUE(made.ok());
    test::Write(made->path() + "/file", "x");
  }
  EXPECT_THAT(test::Names(folder.path()), IsEmpty());
}

TEST(AtomicFolderTest, AnExistingFolderIsRefused) {
  const test::TempFolder folder;
  test::Write(folder / "b/index.json", "old");
  const auto made = AtomicFolder::Create(folder / "b", false, "index.json");
  EXPECT_TRUE(absl::IsAlreadyExists(made.status()));
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("--force"));
}

TEST(AtomicFolderTest, ReplacesOurOwn) {
  const test::TempFolder folder;
  test::Write(folder / "b/index.json", "old");
  test::Write(folder / "b/left", "old");
  auto made = AtomicFolder::Create(folder / "b", true, "index.json");
  ASSERT_TRUE(made.ok()) << made.status();
  test::Write(made->path() + "/index.json", "new");
  EXPECT_EQ(test::Read(folder / "b/index.json"), "old");
  ASSERT_TRUE(made->Publish().ok());
  { const AtomicFolder gone = *std::move(made); }
  EXPECT_EQ(test::Read(folder / "b/index.json"), "new");
  EXPECT_THAT(test::Names(folder.path()), ElementsAre("b"));
  EXPECT_THAT(test::Names(folder / "b"), ElementsAre("index.json"));
}

TEST(AtomicFolderTest, NeverReplacesWhatIsNotOurs) {
  const test::TempFolder folder;
  test::Write(folder / "home/thesis.tex", "years");
  test::Write(folder / "file", "x");
  EXPECT_TRUE(absl::IsAlreadyExists(AtomicFolder::Create(folder / "home", true, "index.json").status()));
  EXPECT_TRUE(absl::IsAlreadyExists(AtomicFolder::Create(folder / "file", true, "index.json").status()));
  EXPECT_FALSE(AtomicFolder::Create("", true, "index.json").ok());
  EXPECT_FALSE(AtomicFolder::Create("/", true, "index.json").ok());
  EXPECT_EQ(test::Read(folder / "home/thesis.tex"), "years");
}

TEST(AtomicFolderTest, ADestinationThatAppearsMeanwhileIsKept) {
  const test::TempFolder folder;
  auto made = AtomicFolder::Create(folder / "b", false, "index.json");
  ASSERT_TRUE(made.ok());
  test::Write(folder / "b/index.json", "faster");
  EXPECT_TRUE(absl::IsAlreadyExists(made->Publish()));
  EXPECT_EQ(test::Read(folder / "b/index.json"), "faster");
}

TEST(AtomicFolderTest, TwoOfOneKeyDoNotShareAFolder) {
  const test::TempFolder folder;
  auto first = AtomicFolder::Resume(folder / "b", false, "index.json", "key");
  ASSERT_TRUE(first.ok()) << first.status();
  test::Write(first->path() + "/index.json", "x");
  std::thread other([&] {
    auto second = AtomicFolder::Resume(folder / "b", false, "index.json", "key");
    if (absl::IsAlreadyExists(second.status())) return;  // it came late
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_FALSE(fs::exists(second->path() + "/index.json"));
    EXPECT_TRUE(absl::IsAlreadyExists(second->Publish()));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // mostly it waits for the first one by then
  EXPECT_TRUE(first->Publish().ok());
  other.join();
  EXPECT_THAT(test::Names(folder / "b"), testing::ElementsAre("index.json"));
}

TEST(AtomicFolderTest, AParentThatIsAFileIsAnError) {
  const test::TempFolder folder;
  test::Write(folder / "file", "x");
  EXPECT_FALSE(AtomicFolder::Create(folder / "file/b", false, "index.json").ok());
}

TEST(AtomicFolderTest, AnUnwritableParentIsAnError) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere; mtdata_test tries /proc instead";
  const test::TempFolder folder;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_TRUE(absl::IsPermissionDenied(AtomicFolder::Create(folder / "b", false, "index.json").status()));
  fs::permissions(folder.path(), fs::perms::owner_all);
}

}  // namespace
}  // namespace mtrun::datasets
