#include "datasets/packed/atomic_folder.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/support/log_lines.h"
#include "tests/support/sync_log.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kOld[] = R"({"format": "mtrun-packed"})";

TEST(AtomicFolderTest, AppearsOnlyWhenPublished) {
  const test::TempFolder folder;
  auto made = AtomicFolder::Create(folder / "a/b", false);
  ASSERT_TRUE(made.ok()) << made.status();
  test::Write(made->path() + "/sub/file", "x");
  EXPECT_FALSE(fs::exists(folder / "a/b"));
  ASSERT_TRUE(made->Publish().ok());
  EXPECT_EQ(test::Read(folder / "a/b/sub/file"), "x");
  EXPECT_THAT(test::Names(folder / "a"), ElementsAre("b"));
}

TEST(AtomicFolderTest, IsOnTheDiskBeforeItHasItsName) {
  const test::TempFolder folder;
  auto made = AtomicFolder::Create(folder / "b", false);
  ASSERT_TRUE(made.ok()) << made.status();
  test::Write(made->path() + "/sub/below/file", "x");
  const std::string name = fs::path(made->path()).filename();
  support::SyncLog log(folder.path());
  ASSERT_TRUE(made->Publish().ok());
  EXPECT_THAT(log.Take(), ElementsAre(name + "/sub", name + "/sub/below", name, "."));
}

TEST(AtomicFolderTest, VanishesUnlessPublished) {
  const test::TempFolder folder;
  {
    auto made = AtomicFolder::Create(folder / "b/", false);
    ASSERT_TRUE(made.ok());
    test::Write(made->path() + "/file", "x");
  }
  EXPECT_THAT(test::Names(folder.path()), IsEmpty());
}

TEST(AtomicFolderTest, ExistingFolderIsRefused) {
  const test::TempFolder folder;
  test::Write(folder / "b/index.json", "old");
  const auto made = AtomicFolder::Create(folder / "b", false);
  EXPECT_TRUE(absl::IsAlreadyExists(made.status()));
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("--force"));
}

TEST(AtomicFolderTest, ReplacesItsOwnFolder) {
  const test::TempFolder folder;
  test::Write(folder / "b/index.json", kOld);
  test::Write(folder / "b/train/shard_00000.safetensors", "old");
  auto made = AtomicFolder::Create(folder / "b", true);
  ASSERT_TRUE(made.ok()) << made.status();
  test::Write(made->path() + "/index.json", "new");
  EXPECT_EQ(test::Read(folder / "b/index.json"), kOld);
  ASSERT_TRUE(made->Publish().ok());
  { const AtomicFolder gone = *std::move(made); }
  EXPECT_EQ(test::Read(folder / "b/index.json"), "new");
  EXPECT_THAT(test::Names(folder.path()), ElementsAre("b"));
  EXPECT_THAT(test::Names(folder / "b"), ElementsAre("index.json"));
}

TEST(AtomicFolderTest, NeverReplacesAForeignFolder) {
  const test::TempFolder folder;
  test::Write(folder / "home/thesis.tex", "years");
  test::Write(folder / "file", "x");
  EXPECT_TRUE(absl::IsAlreadyExists(AtomicFolder::Create(folder / "home", true).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(AtomicFolder::Create(folder / "file", true).status()));
  EXPECT_FALSE(AtomicFolder::Create("", true).ok());
  EXPECT_FALSE(AtomicFolder::Create("/", true).ok());
  EXPECT_EQ(test::Read(folder / "home/thesis.tex"), "years");
}

TEST(AtomicFolderTest, FilesAddedBeforePublishingAreKept) {
  const test::TempFolder folder;
  for (const char* name : {"b", "none"}) {
    if (name == std::string("b")) test::Write(folder / "b/index.json", kOld);
    auto made = AtomicFolder::Create(folder / name, true);
    ASSERT_TRUE(made.ok()) << made.status();
    test::Write(folder / name + "/thesis.tex", "years");
    EXPECT_TRUE(absl::IsAlreadyExists(made->Publish()));
    EXPECT_EQ(test::Read(folder / name + "/thesis.tex"), "years");
  }
}

TEST(AtomicFolderTest, DestinationThatAppearsBeforePublishingIsKept) {
  const test::TempFolder folder;
  auto made = AtomicFolder::Create(folder / "b", false);
  ASSERT_TRUE(made.ok());
  test::Write(folder / "b/index.json", "faster");
  EXPECT_TRUE(absl::IsAlreadyExists(made->Publish()));
  EXPECT_EQ(test::Read(folder / "b/index.json"), "faster");
}

TEST(AtomicFolderTest, TwoWithTheSameKeyDoNotShareAFolder) {
  const test::TempFolder folder;
  auto first = AtomicFolder::Resume(folder / "b", false, "key");
  ASSERT_TRUE(first.ok()) << first.status();
  test::Write(first->path() + "/index.json", "x");
  const std::string path = first->path();
  std::thread other([&] {
    auto second = AtomicFolder::Resume(folder / "b", false, "key");
    if (absl::IsAlreadyExists(second.status())) return;
    ASSERT_TRUE(second.ok()) << second.status();  // the first one published it in between
    EXPECT_FALSE(fs::exists(second->path() + "/index.json"));
    EXPECT_THAT(std::string(second->Publish().message()),
                testing::HasSubstr("the complete import is in " + path));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // usually it waits by then
  EXPECT_TRUE(first->Publish().ok());
  other.join();
  EXPECT_THAT(test::Names(folder / "b"), testing::ElementsAre("index.json"));
}

TEST(AtomicFolderTest, WaiterForTheSameKeyFindsItPublished) {
  const test::TempFolder folder;
  auto first = AtomicFolder::Resume(folder / "b", false, "key");
  ASSERT_TRUE(first.ok()) << first.status();
  const support::LogLines log;
  std::thread other(
      [&] { EXPECT_TRUE(absl::IsAlreadyExists(AtomicFolder::Resume(folder / "b", false, "key").status())); });
  ASSERT_TRUE(log.Await("waiting for it to end", std::chrono::seconds(30)));
  EXPECT_TRUE(first->Publish().ok());
  other.join();
  EXPECT_THAT(test::Names(folder.path()), testing::ElementsAre("b"));
}

TEST(AtomicFolderTest, ParentThatIsAFileIsAnError) {
  const test::TempFolder folder;
  test::Write(folder / "file", "x");
  EXPECT_FALSE(AtomicFolder::Create(folder / "file/b", false).ok());
}

TEST(AtomicFolderTest, UnwritableParentIsAnError) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere; mtdata_test tries /proc instead";
  const test::TempFolder folder;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_TRUE(absl::IsPermissionDenied(AtomicFolder::Create(folder / "b", false).status()));
  fs::permissions(folder.path(), fs::perms::owner_all);
}

}  // namespace
}  // namespace mtrun::datasets
