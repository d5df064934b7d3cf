// Every kind of image file that the world has: read exactly, or refused by its name. The files are made by
// tests/testdata/kinds/make_kinds.py with Pillow, and docs/images.md has a row for each kind.
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "datasets/images/any_image.h"
#include "datasets/images/png.h"
#include "datasets/import/opencv_image.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/datasets/files.h"
#include "tests/datasets/images/golden.h"
#include "tests/support/peers_python.h"
#include "tests/support/program.h"

namespace mtrun::datasets {
namespace {

using nlohmann::json;

class ImageKindsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (support::PeersPython().empty()) return;
    folder_ = new test::TempFolder;
    support::Program python({support::PeersPython(), "-W", "ignore",
                             support::TestFile("testdata/kinds/make_kinds.py"), folder_->path()});
    ASSERT_EQ(python.Wait(), 0) << python.Text();
    kinds_ = new json(json::parse(test::Read(*folder_ / "kinds.json")));
  }
  static void TearDownTestSuite() {
    delete kinds_;
    delete folder_;
  }
  void SetUp() override {
    if (support::PeersPython().empty()) GTEST_SKIP() << "no Python with PyTorch (tools/setup --peers)";
  }
  static std::string File(const json& kind) { return test::Read(*folder_ / kind["file"].get<std::string>()); }

  static inline test::TempFolder* folder_ = nullptr;
  static inline json* kinds_ = nullptr;
};

TEST_F(ImageKindsTest, EachIsReadExactlyOrRefusedByName) {
  EXPECT_GT(kinds_->size(), 100U);
  for (const json& kind : *kinds_) {
    SCOPED_TRACE(kind["name"].get<std::string>());
    const std::string file = File(kind);
    const auto image = DecodeAnyImage(file);
    if (!kind["refused"].is_null()) {
      EXPECT_TRUE(absl::IsInvalidArgument(image.status())) << image.status();
      EXPECT_EQ(std::string(image.status().message()), kind["refused"].get<std::string>());
      EXPECT_EQ(FindAnyImageSize(file).status(), image.status());
      continue;
    }
    EXPECT_TRUE(image.ok()) << image.status();
    if (!image.ok()) continue;
    const auto expected = DecodePng(test::Read(*folder_ / kind["expected"].get<std::string>()));
    EXPECT_EQ(test::Compare(*image, *expected).largest, 0);
    EXPECT_EQ(*FindAnyImageSize(file), expected->size);
  }
}

TEST_F(ImageKindsTest, OpenCvReadsWhatItIsGivenExactly) {
  int read = 0;
  for (const json& kind : *kinds_) {
    const std::string file = File(kind);
    if (!IsForOpenCv(file)) continue;
    SCOPED_TRACE(kind["name"].get<std::string>());
    const auto image = DecodeByOpenCv(file, {});
    EXPECT_TRUE(image.ok()) << image.status();
    if (image.ok()) {
      EXPECT_EQ(*image, *DecodeAnyImage(file));
    }
    ++read;
  }
  if (IsForOpenCv(test::Read(*folder_ / "bmp24.bmp"))) {
    EXPECT_GE(read, 4);
  }
}

TEST_F(ImageKindsTest, TruncatedFilesAreRefused) {
  for (const json& kind : *kinds_) {
    if (!kind["refused"].is_null() || kind["name"] == "tiff_pages") continue;  // whose end is another page
    SCOPED_TRACE(kind["name"].get<std::string>());
    const std::string file = File(kind);
    for (const size_t part : {0, 1, 2, 5, 8}) {
      const std::string_view some = std::string_view(file).substr(0, file.size() * part / 10);
      EXPECT_FALSE(DecodeAnyImage(some).ok()) << part;
      EXPECT_FALSE(DecodeSourceImage(some).ok()) << part;
    }
  }
}

/// Returns the cells of the rows of the table below a heading, keyed by the first cell.
std::map<std::string, std::vector<std::string>> TableBelow(const std::string& text,
                                                           const std::string& heading) {
  std::map<std::string, std::vector<std::string>> rows;
  bool inside = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "#")) inside = line == heading;
    if (!inside || !absl::StartsWith(line, "| ") || absl::StartsWith(line, "| ---")) continue;
    std::vector<std::string> cells;
    for (const absl::string_view cell : absl::StrSplit(line, '|'))
      cells.emplace_back(absl::StripAsciiWhitespace(cell));
    rows[cells[1]] = {cells.begin() + 2, cells.end() - 1};
  }
  rows.erase("kind");
  return rows;
}

// A row is "| kind | exactly or refused | Pillow | ...": what it says of us and of Pillow is what was seen.
TEST_F(ImageKindsTest, DocumentsHaveARowForEach) {
  const auto rows = TableBelow(test::Read(support::TestFile("../docs/images.md")), "## Kinds of image files");
  std::map<std::string, std::set<std::string>> ours, pillow;
  for (const json& kind : *kinds_) {
    ours[kind["kind"]].insert(kind["refused"].is_null() ? "exactly" : "refused");
    pillow[kind["kind"]].insert(kind["pillow"].get<std::string>());
  }
  for (const auto& [kind, seen] : ours) {
    SCOPED_TRACE(kind);
    const auto row = rows.find(kind);
    ASSERT_NE(row, rows.end()) << "docs/images.md has no row for it";
    EXPECT_EQ(seen.size(), 1U);
    EXPECT_THAT(row->second[0], ::testing::StartsWith(*seen.begin()));
    for (const std::string& word : pillow[kind]) EXPECT_THAT(row->second[1], ::testing::HasSubstr(word));
  }
  for (const auto& [kind, row] : rows) EXPECT_EQ(ours.count(kind), 1U) << kind << " has no file";
}

}  // namespace
}  // namespace mtrun::datasets
