#include "trainers/features/feature_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/file_size_limit.h"
#include "tests/support/program.h"
#include "tests/support/status.h"

namespace mtrun::trainers {
namespace {

using support::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kBytes = 20;
constexpr int64_t kRecord = kBytes + 8;  // with its checksum

std::string RowOf(int64_t row) {
  std::string bytes;
  for (int64_t i = 0; i < kBytes; ++i) bytes.push_back(static_cast<char>(7 * row + i));
  return bytes;
}

class FeatureFileTest : public ::testing::Test {
 protected:
  FeatureFile Open(uint64_t key = 5) {
    absl::StatusOr<FeatureFile> file = FeatureFile::Open(path_, key, kBytes);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  static void Write(const FeatureFile& file, int64_t row) {
    const std::string bytes = RowOf(row);
    ASSERT_TRUE(file.Write(row, absl::MakeConstSpan(bytes)).ok());
  }
  /// Returns the row, or "none".
  static std::string Read(const FeatureFile& file, int64_t row) {
    std::string bytes(kBytes, '?');
    return file.Read(row, absl::MakeSpan(bytes)) ? bytes : "none";
  }

  const support::TemporaryFolder folder_;
  const std::string path_ = folder_.File("train.features");
};

TEST_F(FeatureFileTest, RowsAreReadByOtherProcessesInAnyOrder) {
  const FeatureFile one = Open(), other = Open();
  for (const int64_t row : {9, 0, 4}) Write(one, row);
  for (int64_t row = 0; row < 12; ++row) {
    const bool there = row == 9 || row == 0 || row == 4;
    EXPECT_EQ(Read(other, row), there ? RowOf(row) : "none") << row;
  }
}

TEST_F(FeatureFileTest, RowOfAnotherKeyOrNumberIsNotThere) {
  Write(Open(), 1);
  EXPECT_EQ(Read(Open(6), 1), "none") << "other weights";
  std::string text = support::ReadText(path_);
  support::WriteText(path_, text + text.substr(kRecord, kRecord));
  EXPECT_EQ(Read(Open(), 1), RowOf(1));
  EXPECT_EQ(Read(Open(), 2), "none") << "a copy of row 1";
}

/// A process can die in the middle of a write, and a disk can lose any part of it.
TEST_F(FeatureFileTest, TornRowIsNotThere) {
  Write(Open(), 0);
  const std::string text = support::ReadText(path_);
  ASSERT_EQ(text.size(), static_cast<size_t>(kRecord));
  for (size_t size = 0; size < text.size(); ++size) {
    support::WriteText(path_, text.substr(0, size));
    EXPECT_EQ(Read(Open(), 0), "none") << size;
    support::WriteText(path_, text.substr(0, size) + std::string(text.size() - size, '\0'));
    EXPECT_EQ(Read(Open(), 0), text[size] == '\0' && size + 1 == text.size() ? RowOf(0) : "none") << size;
  }
  support::WriteText(path_, std::string(5 * kRecord, '\0'));
  EXPECT_EQ(Read(Open(), 3), "none") << "zeros";
}

TEST_F(FeatureFileTest, ClearRemovesRowsOfAllProcesses) {
  const FeatureFile one = Open(), other = Open();
  Write(one, 3);
  ASSERT_TRUE(other.Clear().ok());
  EXPECT_EQ(Read(one, 3), "none");
  Write(one, 3);
  EXPECT_EQ(Read(other, 3), RowOf(3));
}

TEST_F(FeatureFileTest, WriteBeyondASizeLimitFailsAndKeepsOtherRows) {
  const FeatureFile file = Open();
  Write(file, 0);
  {
    const support::FileSizeLimit limit(kRecord + 3);
    const std::string bytes = RowOf(1);
    EXPECT_THAT(file.Write(1, absl::MakeConstSpan(bytes)),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("write " + path_)));
  }
  EXPECT_EQ(Read(file, 0), RowOf(0));
  EXPECT_EQ(Read(file, 1), "none");
}

TEST_F(FeatureFileTest, OtherKindsOfFilesAreRefused) {
  support::WriteText(folder_.File("victim"), "text");
  ASSERT_EQ(symlink(folder_.File("victim").c_str(), path_.c_str()), 0);
  EXPECT_THAT(FeatureFile::Open(path_, 1, kBytes),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is a symbolic link")));
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(FeatureFile::Open(path_, 1, kBytes),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is no ordinary file")));
  EXPECT_THAT(FeatureFile::Open(folder_.File("none/x"), 1, kBytes),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("open ")));
}

}  // namespace
}  // namespace mtrun::trainers
