#include "datasets/files/mapped_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

TEST(MappedFileTest, MapsBytesThatSurviveMoves) {
  const test::TempFolder folder;
  test::Write(folder / "a", "hello");
  auto opened = MappedFile::Open(folder / "a");
  ASSERT_TRUE(opened.ok()) << opened.status();
  MappedFile moved = *std::move(opened);
  EXPECT_EQ(std::string(moved.bytes().begin(), moved.bytes().end()), "hello");
  test::Write(folder / "b", "other");
  auto other = MappedFile::Open(folder / "b");
  moved = *std::move(other);
  EXPECT_EQ(std::string(moved.bytes().begin(), moved.bytes().end()), "other");
}

TEST(MappedFileTest, ReplacementIsVisibleToReaders) {
  const test::TempFolder folder;
  test::Write(folder / "a", "hello");
  test::Write(folder / "b", "other");
  test::Write(folder / "longer", "longer");
  const auto file = MappedFile::Open(folder / "a");
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Span<const uint8_t> seen = file->bytes();
  EXPECT_TRUE(absl::IsDataLoss(file->Replace(folder / "longer")));
  EXPECT_TRUE(absl::IsNotFound(file->Replace(folder / "none")));
  EXPECT_EQ(std::string(seen.begin(), seen.end()), "hello");
  ASSERT_TRUE(file->Replace(folder / "b").ok());
  EXPECT_EQ(std::string(seen.begin(), seen.end()), "other");
  EXPECT_EQ(file->bytes().data(), seen.data());
}

TEST(MappedFileTest, EmptyFileHasNoBytes) {
  const test::TempFolder folder;
  test::Write(folder / "a", "");
  const auto opened = MappedFile::Open(folder / "a");
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->bytes().empty());
}

TEST(MappedFileTest, ErrorsNameThePath) {
  const test::TempFolder folder;
  const auto missing = MappedFile::Open(folder / "none");
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), testing::HasSubstr(folder / "none"));
  EXPECT_FALSE(MappedFile::Open(folder.path()).ok());
}

}  // namespace
}  // namespace mtrun::datasets
