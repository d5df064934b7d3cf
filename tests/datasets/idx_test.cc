#include "datasets/import/idx.h"

#include "datasets/import/import.h"
#include "datasets/packed/packed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

using testing::HasSubstr;

std::string BigEndian(std::initializer_list<uint32_t> numbers) {
  std::string bytes;
  for (const uint32_t number : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
  }
  return bytes;
}

/// Returns n images of 2x3; pixel p of image i is 10 * i + p.
std::string Images(uint32_t n) {
  std::string bytes = BigEndian({0x803, n, 2, 3});
  for (uint32_t i = 0; i < n; ++i) {
    for (uint32_t p = 0; p < 6; ++p) bytes.push_back(static_cast<char>(10 * i + p));
  }
  return bytes;
}

std::string Labels(const std::string& labels) {
  return BigEndian({0x801, static_cast<uint32_t>(labels.size())}) + labels;
}

void WriteSet(const std::string& folder, bool gzip) {
  const std::string end = gzip ? ".gz" : "";
  const auto pack = [&](const std::string& bytes) { return gzip ? test::Gzip(bytes) : bytes; };
  test::Write(folder + "/train-images-idx3-ubyte" + end, pack(Images(3)));
  test::Write(folder + "/train-labels-idx1-ubyte" + end, pack(Labels("\x09\x01\x04")));
  test::Write(folder + "/t10k-images-idx3-ubyte" + end, pack(Images(1)));
  test::Write(folder + "/t10k-labels-idx1-ubyte" + end, pack(Labels("\x02")));
}

absl::StatusOr<ImportReport> ImportIdxTo(const std::string& source, const std::string& destination) {
  const std::atomic<bool> cancelled = false;
  return Import({.source = source, .destination = destination, .threads = 2}, cancelled);
}

std::string IdxOpenError(const std::string& folder) {
  const auto opened = OpenIdx(folder);
  EXPECT_FALSE(opened.ok());
  return std::string(opened.status().message());
}

TEST(IdxTest, GreyKeepsItsSizeAndGetsItsChannelRepeated) {
  const test::TempFolder folder;
  WriteSet(folder / "mnist", true);
  const auto report = ImportIdxTo(folder / "mnist", folder / "out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->format, "idx");
  const auto train = PackedSplit::Open(folder / "out", "train", true);
  ASSERT_TRUE(train.ok());
  EXPECT_EQ(train->height(), 2);
  EXPECT_EQ(train->width(), 3);
  EXPECT_EQ(train->size(), 3);
  EXPECT_EQ(train->label(0), 9);
  EXPECT_THAT(train->image(2).subspan(0, 7), testing::ElementsAre(20, 20, 20, 21, 21, 21, 22));
  EXPECT_EQ(train->class_names().size(), 10u);
  EXPECT_EQ(train->class_names()[9], "9");
}

TEST(IdxTest, PlainAndGzipGiveTheSameBytes) {
  const test::TempFolder folder;
  WriteSet(folder / "a", true);
  WriteSet(folder / "b", false);
  ASSERT_TRUE(ImportIdxTo(folder / "a", folder / "out_a").ok());
  ASSERT_TRUE(ImportIdxTo(folder / "b", folder / "out_b").ok());
  EXPECT_EQ(test::ReadTree(folder / "out_a"), test::ReadTree(folder / "out_b"));
}

TEST(IdxTest, FolderNamedFashionHasTheNamesOfFashionMnist) {
  const test::TempFolder folder;
  WriteSet(folder / "Fashion-MNIST", true);
  ASSERT_TRUE(ImportIdxTo(folder / "Fashion-MNIST/", folder / "out").ok());
  EXPECT_EQ(PackedSplit::Open(folder / "out", "test")->class_names()[9], "Ankle boot");
}

TEST(IdxTest, HigherLabelsMakeMoreClasses) {
  const test::TempFolder folder;
  WriteSet(folder / "letters", false);
  test::Write(folder / "letters/t10k-labels-idx1-ubyte", Labels("\x19"));
  const auto source = OpenIdx(folder / "letters");
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->shape().classes.size(), 26u);
}

TEST(IdxTest, ErrorsNameTheFile) {
  const test::TempFolder folder;
  const std::string set = folder / "set", images = folder / "set/train-images-idx3-ubyte",
                    labels = folder / "set/train-labels-idx1-ubyte";
  WriteSet(set, false);
  const auto with = [&](const std::string& path, const std::string& bytes) {
    const std::string before = test::Read(path);
    test::Write(path, bytes);
    const std::string error = IdxOpenError(set);
    test::Write(path, before);
    EXPECT_THAT(error, HasSubstr(path));
    return error;
  };
  EXPECT_THAT(with(images, Labels("abc")), HasSubstr("wrong magic number (0x00000801, expected 0x00000803)"));
  EXPECT_THAT(with(images, ""), HasSubstr("wrong magic number"));
  EXPECT_THAT(with(images, Images(3).substr(0, 10)), HasSubstr("truncated in its header"));
  EXPECT_THAT(with(images, Images(3).substr(0, 20)), HasSubstr("truncated"));
  EXPECT_THAT(with(images, Images(3) + "x"), HasSubstr("too long"));
  EXPECT_THAT(with(images, Images(2)), HasSubstr("2 images"));
  EXPECT_THAT(with(labels, Labels("\x01")), HasSubstr("1 labels"));
  EXPECT_THAT(with(images, BigEndian({0x803, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF})), HasSubstr("impossible"));
  EXPECT_THAT(with(images, BigEndian({0x803, 0, 2, 3})), HasSubstr("0 images"));
  ASSERT_TRUE(OpenIdx(set).ok());
}

TEST(IdxTest, TruncatedGzipIsDataLoss) {
  const test::TempFolder folder;
  WriteSet(folder / "set", true);
  const std::string path = folder / "set/train-images-idx3-ubyte.gz", whole = test::Read(path);
  for (size_t size = 11; size < whole.size() - 8; ++size) {
    test::Write(path, whole.substr(0, size));
    EXPECT_THAT(IdxOpenError(folder / "set"), HasSubstr(path)) << size;
  }
  std::string damaged = whole;
  damaged[whole.size() - 5] ^= 1;  // the checksum
  test::Write(path, damaged);
  EXPECT_THAT(IdxOpenError(folder / "set"), HasSubstr("truncated or damaged"));
}

TEST(IdxTest, ErrorNamesAMissingCompanion) {
  const test::TempFolder folder;
  WriteSet(folder / "set", true);
  ASSERT_EQ(std::remove((folder / "set/t10k-labels-idx1-ubyte.gz").c_str()), 0);
  EXPECT_TRUE(LooksLikeIdx(folder / "set"));
  EXPECT_THAT(IdxOpenError(folder / "set"), HasSubstr("t10k-labels-idx1-ubyte"));
}

}  // namespace
}  // namespace mtrun::datasets
