#include "datasets/import/cifar.h"

#include <filesystem>

#include "datasets/import/import.h"
#include "datasets/packed/packed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Makes a record whose red plane is `r`, green `r`+1, blue `r`+2; the first pixel of each plane differs.
std::string CifarRecord(const std::string& labels, int r) {
  std::string record = labels;
  for (int c = 0; c < 3; ++c)
    record += std::string(1, static_cast<char>(100 + c)) + std::string(1023, static_cast<char>(r + c));
  return record;
}

void WriteCifar10(const std::string& folder) {
  for (const int batch : {1, 2, 10}) {
    test::Write(
        folder + "/data_batch_" + std::to_string(batch) + ".bin",
        CifarRecord(std::string(1, static_cast<char>(batch % 10)), batch) + CifarRecord("\3", batch + 100));
  }
  test::Write(folder + "/test_batch.bin", CifarRecord("\x09", 50));
}

std::string OpenError(const std::string& source) {
  const auto opened = OpenCifar(source);
  EXPECT_FALSE(opened.ok());
  return std::string(opened.status().message());
}

absl::StatusOr<ImportReport> ImportTo(const std::string& source, const std::string& destination) {
  const std::atomic<bool> cancelled = false;
  return Import({.source = source, .destination = destination, .threads = 3}, cancelled);
}

TEST(CifarTest, ImportsCifar10BatchesInTheOrderOfTheirNumbers) {
  const test::TempFolder folder;
  WriteCifar10(folder / "in/cifar-10-batches-bin");
  const auto report = ImportTo(folder / "in", folder / "out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->format, "cifar");
  const auto train = PackedSplit::Open(folder / "out", "train", true);
  ASSERT_TRUE(train.ok()) << train.status();
  ASSERT_EQ(train->size(), 6);
  EXPECT_EQ(train->class_names()[1], "automobile");
  std::vector<int64_t> labels, reds;
  for (int64_t i = 0; i < 6; ++i) {
    labels.push_back(train->label(i));
    reds.push_back(train->image(i)[3]);
    EXPECT_THAT(train->image(i).subspan(0, 3), ElementsAre(100, 101, 102));
    EXPECT_EQ(train->image(i)[3071], reds.back() + 2);
  }
  EXPECT_THAT(labels, ElementsAre(1, 3, 2, 3, 0, 3));
  EXPECT_THAT(reds, ElementsAre(1, 101, 2, 102, 10, 110));
  EXPECT_EQ(PackedSplit::Open(folder / "out", "test")->label(0), 9);
}

TEST(CifarTest, ArchiveGivesTheSameBytes) {
  const test::TempFolder folder;
  WriteCifar10(folder / "in");
  std::vector<std::pair<std::string, std::string>> entries{{"cifar-10-batches-bin/", ""},
                                                           {"cifar-10-batches-bin/readme.html", "hi"}};
  for (const auto& [name, bytes] : test::ReadTree(folder / "in"))
    entries.emplace_back("cifar-10-batches-bin/" + name, bytes);
  test::WriteTarGz(folder / "cifar-10-binary.tar.gz", entries);
  ASSERT_TRUE(ImportTo(folder / "in", folder / "a").ok());
  const auto report = ImportTo(folder / "cifar-10-binary.tar.gz", folder / "b");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(test::ReadTree(folder / "a"), test::ReadTree(folder / "b"));
}

TEST(CifarTest, Cifar100TakesFineLabelsAndItsNames) {
  const test::TempFolder folder;
  test::Write(folder / "in/train.bin", CifarRecord("\x05\x63", 1) + CifarRecord("\x13\x02", 2));
  test::Write(folder / "in/test.bin", CifarRecord(std::string("\0\0", 2), 1));
  std::string names;
  for (int i = 0; i < 100; ++i) names += "name" + std::to_string(i) + "\r\n";
  test::Write(folder / "in/fine_label_names.txt", names);
  ASSERT_TRUE(ImportTo(folder / "in", folder / "out").ok());
  const auto train = PackedSplit::Open(folder / "out", "train");
  ASSERT_TRUE(train.ok());
  EXPECT_EQ(train->label(0), 99);
  EXPECT_EQ(train->label(1), 2);
  EXPECT_EQ(train->class_names()[99], "name99");
}

TEST(CifarTest, ErrorNamesMissingBatches) {
  const test::TempFolder folder;
  const auto warnings = [&] {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(OpenCifar(folder.path()).ok());
    return testing::internal::GetCapturedStderr();
  };
  test::Write(folder / "test_batch.bin", CifarRecord("\x09", 50));
  for (const int batch : {1, 3, 4})
    test::Write(folder / ("data_batch_" + std::to_string(batch) + ".bin"), CifarRecord("\1", batch));
  EXPECT_THAT(warnings(),
              HasSubstr("has no data_batch_2.bin and no data_batch_5.bin: the set is smaller than "
                        "the published one"));
  for (const int batch : {2, 5})
    test::Write(folder / ("data_batch_" + std::to_string(batch) + ".bin"), CifarRecord("\1", batch));
  EXPECT_THAT(warnings(), testing::Not(HasSubstr("has no")));
}

TEST(CifarTest, ErrorsNameTheFile) {
  const test::TempFolder folder;
  WriteCifar10(folder.path());
  const std::string good = test::Read(folder / "data_batch_2.bin");
  test::Write(folder / "data_batch_2.bin", good.substr(0, good.size() - 1));
  EXPECT_THAT(OpenError(folder.path()), HasSubstr("data_batch_2.bin is truncated: 1 whole images"));
  test::Write(folder / "data_batch_2.bin", "");
  EXPECT_THAT(OpenError(folder.path()), HasSubstr("data_batch_2.bin is truncated"));
  test::Write(folder / "data_batch_2.bin", CifarRecord("\x0A", 1));
  EXPECT_THAT(OpenError(folder.path()), HasSubstr("data_batch_2.bin: image 0 has label 10"));
  test::Write(folder / "data_batch_2.bin", good);
  ASSERT_TRUE(OpenCifar(folder.path()).ok());
  ASSERT_EQ(std::remove((folder / "test_batch.bin").c_str()), 0);
  EXPECT_THAT(OpenError(folder.path()), HasSubstr("does not contain test_batch.bin"));
}

TEST(CifarTest, RecognizesItsNames) {
  EXPECT_TRUE(LooksLikeCifar({"x/data_batch_1.bin"}));
  EXPECT_TRUE(LooksLikeCifar({"cifar-100-binary/train.bin", "cifar-100-binary/test.bin"}));
  EXPECT_FALSE(LooksLikeCifar({"train.bin"}));
  EXPECT_FALSE(LooksLikeCifar({"data_batch_1", "test_batch"}));
  EXPECT_TRUE(LooksLikePythonCifar({"cifar-10-batches-py/data_batch_1"}));
}

TEST(CifarTest, DeviceIsNotRead) {
  const test::TempFolder folder;
  WriteCifar10(folder / "in");
  std::filesystem::remove(folder / "in/data_batch_2.bin");
  std::filesystem::create_symlink("/dev/null", folder / "in/data_batch_2.bin");
  EXPECT_THAT(OpenError(folder / "in"), HasSubstr("data_batch_2.bin is not an ordinary file"));
}

}  // namespace
}  // namespace mtrun::datasets
