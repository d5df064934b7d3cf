// Archives and folders as other tools make them: macOS, GNU tar, WebDataset with several images a sample.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "datasets/import/import.h"
#include "datasets/packed/packed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/datasets/source_forms.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;
using test::Entries;
using testing::ElementsAre;
using testing::HasSubstr;

std::string JpegOf(int number) { return test::Encode(".jpg", test::Picture(20, 30, number), 20, 30); }

class ForeignSourcesTest : public testing::Test {
 protected:
  absl::StatusOr<ImportReport> Run(ImportOptions options, const std::string& name) const {
    options.destination = folder_ / name;
    options.store = Store::kEncoded;
    options.threads = 2;
    return Import(options, test::kGoOn);
  }
  std::string ForeignError(const ImportOptions& options) const {
    const auto report = Run(options, "refused");
    EXPECT_FALSE(report.ok());
    return std::string(report.status().message());
  }
  /// Returns the records of a split of a set, in order.
  std::vector<std::string> Records(const std::string& name, const std::string& split = "train") const {
    const auto packed = PackedSplit::Open(folder_ / name, split);
    EXPECT_TRUE(packed.ok()) << packed.status();
    std::vector<std::string> records;
    for (int64_t i = 0; packed.ok() && i < packed->size(); ++i) records.emplace_back(packed->record(i));
    return records;
  }

  const test::TempFolder folder_;
};

TEST_F(ForeignSourcesTest, HiddenFilesOfAMacChangeNoSet) {
  const std::vector<std::string> classes{"n00000003", "n00000001", "n00000002"};
  std::vector<test::Photo> photos;
  for (int i = 0; i < 12; ++i) {
    const std::string split = i < 9 ? "train" : "val", prefix = i < 9 ? classes[i % 3] : "val";
    photos.push_back({.split = split,
                      .name = absl::StrCat(prefix, "_", 100 + i, ".jpg"),
                      .bytes = JpegOf(i),
                      .label = static_cast<size_t>(i) % 3});
  }
  const test::SourceForms plain(photos, classes), mac(photos, classes, /*from_mac=*/true);
  plain.WriteFolder(folder_ / "tree");
  ASSERT_TRUE(Run({.source = folder_ / "tree"}, "expected").ok());
  const auto expected = test::ReadTree(folder_ / "expected");
  for (const bool skip_bad : {false, true}) {
    for (auto [format, options] : mac.WriteAll(folder_ / "mac")) {
      options.skip_bad = skip_bad;
      const auto report = Run(options, "out");
      ASSERT_TRUE(report.ok()) << options.source << ": " << report.status();
      EXPECT_EQ(report->format, format) << options.source;
      EXPECT_EQ(test::ReadTree(folder_ / "out"), expected) << options.source;
      EXPECT_GT(report->counts.others, 0) << options.source;
      fs::remove_all(folder_ / "out");
    }
    fs::remove_all(folder_ / "mac");
  }
}

TEST_F(ForeignSourcesTest, HiddenFilesOfAMacAreNoImagesWithoutClasses) {
  test::WriteArchive(folder_ / "a.tar", {{"._1.jpg", "x"}, {"1.jpg", JpegOf(1)}, {"__MACOSX/._1.jpg", "x"}});
  const auto report = Run({.source = folder_ / "a.tar", .tree = {.unlabelled = true}}, "out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(Records("out"), ElementsAre(JpegOf(1)));
  EXPECT_EQ(report->counts, (LeftOut{.others = 1}));
}

}  // namespace
}  // namespace mtrun::datasets
