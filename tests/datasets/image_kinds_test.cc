// Every kind of image file that the world has: read exactly, or refused by its name. The files are made by
// tests/testdata/kinds/make_kinds.py with Pillow, and docs/images.md has a row for each kind.
#include <map>
#include <random>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "datasets/images/exif.h"
#include "datasets/images/image_file.h"
#include "datasets/images/png.h"
#include "datasets/import/image_rules.h"
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
    support::Program python({support::PeersPython(), "-B", "-W", "ignore",
                             support::TestFile("testdata/kinds/make_kinds.py"), folder_->path()});
    ASSERT_EQ(python.Wait(), 0) << python.Text();
    kinds_ = new json(json::parse(test::Read(*folder_ / "kinds.json")));
    turned_ = new json(json::parse(test::Read(*folder_ / "turned.json")));
  }
  static void TearDownTestSuite() {
    delete kinds_;
    delete turned_;
    delete folder_;
  }
  void SetUp() override {
    if (support::PeersPython().empty()) GTEST_SKIP() << "no Python with PyTorch (tools/setup --peers)";
  }
  static std::string File(const json& kind) { return test::Read(*folder_ / kind["file"].get<std::string>()); }

  static absl::StatusOr<RgbImage> Decoded(const absl::StatusOr<Record>& record) {
    return record.ok() ? DecodeAnyImage(record->bytes) : record.status();
  }

  static inline test::TempFolder* folder_ = nullptr;
  static inline json* kinds_ = nullptr;   // files as they are stored
  static inline json* turned_ = nullptr;  // files with an orientation
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

TEST_F(ImageKindsTest, EachOrientationIsTurnedAsPillowTurnsIt) {
  EXPECT_GT(turned_->size(), 40U);
  for (const json& kind : *turned_) {
    SCOPED_TRACE(kind["name"].get<std::string>());
    const std::string file = File(kind);
    const auto expected = DecodePng(test::Read(*folder_ / kind["expected"].get<std::string>()));
    for (const auto& image : {DecodeFitted(file, {}), Decoded(MakeRecord(file, {.quality = 100}))}) {
      ASSERT_TRUE(image.ok()) << image.status();
      EXPECT_EQ(image->size, expected->size);
    }
    EXPECT_EQ(test::Compare(*DecodeFitted(file, {}), *expected).largest, 0);
    const int orientation = kind["orientation"].get<int>();
    const bool known = orientation > 1 && orientation < 9;
    EXPECT_EQ(ExifOrientation(file), known ? orientation : 1);
    const auto stored = DecodeFitted(file, {.exif = false});
    EXPECT_EQ(UprightSize(stored->size, ExifOrientation(file)), expected->size);
    EXPECT_EQ(stored->size, (ImageSize{22, 37})) << "a TIFF too";
  }
}

TEST_F(ImageKindsTest, ModelPySeesWhatImportSees) {
  support::Program python({support::PeersPython(), "-B", "-W", "ignore",
                           support::TestFile("testdata/kinds/compare_model.py"),
                           support::TestFile("../trainers/program/python/tail.py"), folder_->path()});
  EXPECT_EQ(python.Wait(), 0) << python.Text();
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
    if (!kind["refused"].is_null() || kind["name"] == "tiff_pages" || kind["name"] == "ppm_two")
      continue;  // whose end is another image
    SCOPED_TRACE(kind["name"].get<std::string>());
    const std::string file = File(kind);
    for (const size_t part : {0, 1, 2, 5, 8}) {
      const std::string_view some = std::string_view(file).substr(0, file.size() * part / 10);
      EXPECT_FALSE(DecodeAnyImage(some).ok()) << part;
      EXPECT_FALSE(DecodeSourceImage(some).ok()) << part;
    }
  }
}

// Also a search for reads beyond buffers, under the sanitizers of preset dev.
TEST_F(ImageKindsTest, DamagedFilesNeverCrash) {
  std::mt19937_64 random(test::Seed());
  int refused = 0;
  for (const json* kinds : {kinds_, turned_}) {
    for (const json& kind : *kinds) {
      const std::string original = File(kind);
      for (int round = 0; round < 30; ++round) {
        std::string bytes = original;
        // Most mistakes are in headers, at the beginning, or in TIFF at the end.
        const size_t span = round % 3 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 200);
        const size_t from = round % 3 == 2 ? bytes.size() - span : 0;
        for (uint64_t n = 1 + random() % 4; n > 0; --n)
          bytes[from + random() % span] = static_cast<char>(random());
        const auto image = DecodeAnyImage(bytes, {.max_pixels = 1 << 20});
        if (image.ok()) {
          EXPECT_EQ(*FindAnyImageSize(bytes), image->size) << kind["name"];
        } else {
          EXPECT_FALSE(image.status().message().empty());
        }
        const int orientation = ExifOrientation(bytes);
        EXPECT_TRUE(orientation >= 1 && orientation <= 8) << orientation;
        refused += !image.ok();
      }
    }
  }
  EXPECT_GT(refused, 500);
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

TEST_F(ImageKindsTest, DocumentsHaveARowForEachOrientation) {
  const auto rows = TableBelow(test::Read(support::TestFile("../docs/images.md")), "## Orientation");
  std::set<std::string> kinds;
  for (const json& kind : *turned_) {
    kinds.insert(kind["kind"]);
    const auto row = rows.find(kind["kind"].get<std::string>());
    ASSERT_NE(row, rows.end()) << kind["kind"];
    const bool valid = kind["orientation"] >= 1 && kind["orientation"] <= 8;
    EXPECT_EQ(row->second[0], valid ? "turned" : "stored");
    EXPECT_EQ(row->second[1], valid ? kind["pillow"].get<std::string>() : "stored");
  }
  EXPECT_EQ(rows.size(), kinds.size());
}

}  // namespace
}  // namespace mtrun::datasets
