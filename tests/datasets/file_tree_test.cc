#include "datasets/files/file_tree.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

/// Reads each file: contents or error.
std::map<std::string, std::string> ReadTree(const FileTree& tree) {
  std::map<std::string, std::string> all;
  for (size_t i = 0; i < tree.files().size(); ++i) {
    const auto bytes = tree.Read(i);
    all[std::string(tree.files()[i].path)] = bytes.ok() ? *bytes : std::string(bytes.status().message());
  }
  return all;
}

std::shared_ptr<const FileTree> Open(const std::string& source, const std::string& spool,
                                     const std::string& prefix = "") {
  const auto tree = OpenFileTree({{.path = source, .prefix = prefix}}, spool);
  EXPECT_TRUE(tree.ok()) << tree.status();
  return tree.ok() ? *tree : nullptr;
}

/// Returns the bytes of an archive, whose format depends on `name`.
std::string Archive(const test::TempFolder& folder, const std::string& name,
                    const std::vector<std::pair<std::string, std::string>>& entries) {
  test::WriteArchive(folder / name, entries);
  return test::Read(folder / name);
}

const std::string kLarge(300'000, 'z');

TEST(FileTreeTest, EveryKindOfArchiveContainsTheSameFiles) {
  const test::TempFolder folder;
  for (const std::string name : {"a.tar", "a.tar.gz", "a.zip"}) {
    test::WriteArchive(folder / name, {{"./d/", ""}, {"./d/b", kLarge}, {"d/e.jpg", "xyz"}, {"d/a", ""}});
    EXPECT_THAT(ReadTree(*Open(folder / name, folder.path(), "p/")),
                ElementsAre(Pair("p/d/a", ""), Pair("p/d/b", kLarge), Pair("p/d/e.jpg", "xyz")))
        << name;
  }
  EXPECT_THAT(test::Names(folder.path()), ElementsAre("a.tar", "a.tar.gz", "a.zip"));  // without the spool
}

TEST(FileTreeTest, TarInATarIsAFolder) {
  const test::TempFolder folder;
  const std::string inner = Archive(folder, "n1.tar", {{"1.jpg", kLarge}, {"2.jpg", "b"}});
  const auto expected = ElementsAre(Pair("n1/1.jpg", kLarge), Pair("n1/2.jpg", "b"), Pair("n2/1.jpg", kLarge),
                                    Pair("n2/2.jpg", "b"));
  for (const std::string name : {"all.tar", "all.tar.gz", "all.zip"}) {
    test::WriteArchive(folder / name, {{"n1.tar", inner}, {"n2.tar", inner}});
    EXPECT_THAT(ReadTree(*Open(folder / name, folder.path())), expected) << name;
  }
  test::Write(folder / "tree/train/n1.tar", inner);
  test::Write(folder / "tree/train/n2/1.jpg", "x");
  EXPECT_THAT(
      ReadTree(*Open(folder / "tree", folder.path())),
      ElementsAre(Pair("train/n1/1.jpg", kLarge), Pair("train/n1/2.jpg", "b"), Pair("train/n2/1.jpg", "x")));
}

TEST(FileTreeTest, DamageInATarOfTarsIsReported) {
  const test::TempFolder folder;
  const std::string inner = Archive(folder, "n1.tar", {{"1.jpg", kLarge}});
  test::WriteArchive(folder / "all.tar", {{"n1.tar", inner.substr(0, 200'000)}});
  const auto tree = OpenFileTree({{.path = folder / "all.tar"}}, folder.path());
  EXPECT_TRUE(absl::IsDataLoss(tree.status())) << tree.status();
  EXPECT_THAT(std::string(tree.status().message()), HasSubstr("all.tar: n1.tar is truncated in 1.jpg"));
  test::WriteArchive(folder / "all.tar", {{"n1.tar", "no archive"}});
  EXPECT_THAT(std::string(OpenFileTree({{.path = folder / "all.tar"}}, folder.path()).status().message()),
              HasSubstr("all.tar: n1.tar"));
}

TEST(FileTreeTest, EveryTruncationIsDetectedWhenListedOrRead) {
  const test::TempFolder folder;
  for (const std::string name : {"a.tar", "a.zip"}) {
    const std::string whole = Archive(folder, name, {{"a.jpg", kLarge.substr(0, 3000)}, {"b", "some text"}});
    const size_t contents = whole.rfind("some text") == std::string::npos ? 3050 : whole.rfind("some text");
    for (size_t size = 1; size < contents; size += 101) {
      test::Write(folder / "cut.tar", whole.substr(0, size));
      const auto tree = OpenFileTree({{.path = folder / "cut.tar"}}, folder.path());
      const bool whole_files = tree.ok() && (*tree)->files().size() == 2;
      EXPECT_FALSE(whole_files) << name << " " << size;
    }
  }
}

TEST(FileTreeTest, ChangedArchiveEndsTheReading) {
  const test::TempFolder folder;
  test::WriteArchive(folder / "a.tar", {{"a", "first"}});
  const auto tree = Open(folder / "a.tar", folder.path());
  test::WriteArchive(folder / "a.tar", {{"a", "other"}, {"b", kLarge}});
  EXPECT_TRUE(absl::IsAborted(tree->Read(0).status()));
  fs::remove(folder / "a.tar");
  EXPECT_THAT(std::string(tree->Read(0).status().message()), HasSubstr("a.tar was removed"));
}

TEST(FileTreeTest, OnlyTheChangedFileOfAFolderIsReported) {
  const test::TempFolder folder;
  test::Write(folder / "in/a/1.jpg", "first");
  test::Write(folder / "in/a/2.jpg", "second");
  const auto tree = Open(folder / "in", folder.path());
  const size_t first = tree->files()[0].path == "a/1.jpg" ? 0 : 1;
  fs::last_write_time(folder / "in/a/1.jpg", fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_THAT(std::string(tree->Read(first).status().message()), HasSubstr("changed during the import"));
  EXPECT_EQ(*tree->Read(1 - first), "second");
}

TEST(FileTreeTest, PipedZipGivesItsSizesByReading) {
  const test::TempFolder folder;
  const std::string script =
      "cd " + folder.path() +
      " && printf aaaaaaaaaaaaaaaaaaaaaaaaaaaa > 1.txt && printf b > 2.txt && python3 -c \""
      "import zipfile,sys\n"
      "z = zipfile.ZipFile(sys.stdout.buffer, 'w', zipfile.ZIP_DEFLATED)\n"
      "z.write('1.txt'); z.write('2.txt'); z.close()\" | cat > piped.zip";
  ASSERT_EQ(std::system(script.c_str()), 0);
  EXPECT_THAT(ReadTree(*Open(folder / "piped.zip", folder.path())),
              ElementsAre(Pair("1.txt", std::string(28, 'a')), Pair("2.txt", "b")));
}

}  // namespace
}  // namespace mtrun::datasets
