#include "datasets/files/source_path.h"

#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

TEST(SourcePathTest, LeadsIntoAnArchive) {
  const test::TempFolder folder;
  test::Write(folder / "a.zip", "x");
  test::Write(folder / "b.tar/c.zip", "x");
  const auto parts = [&](const std::string& path) {
    const SourcePath found = FindSourcePath(folder / path);
    return found.file.substr(folder.path().size() + 1) + "|" + found.inside;
  };
  EXPECT_EQ(parts("a.zip"), "a.zip|");
  EXPECT_EQ(parts("a.zip/"), "a.zip|");
  EXPECT_EQ(parts("a.zip/set/Training/"), "a.zip|set/Training/");
  EXPECT_EQ(parts("b.tar"), "b.tar|");
  EXPECT_EQ(parts("b.tar/c.zip/x"), "b.tar/c.zip|x/");
  EXPECT_EQ(parts("none.zip/x"), "none.zip/x|");
}

}  // namespace
}  // namespace mtrun::datasets
