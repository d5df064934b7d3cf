// The images with which Pillow, libtiff, torchvision, libjpeg-turbo and libpng test their readers
// (tools/corpora): each is what Pillow sees, or refused by its name. Files of which this does not hold are in
// tests/testdata/kinds/corpora.json, with the reason.
#include <iostream>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "datasets/images/image_file.h"
#include "datasets/images/png.h"
#include "datasets/import/image_rules.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/datasets/files.h"
#include "tests/datasets/images/golden.h"
#include "tests/support/peers_python.h"
#include "tests/support/program.h"

namespace mtrun::datasets {
namespace {

using nlohmann::json;

/// What this project and Pillow say of one file.
struct Verdict {
  std::string text;   // "same", "both refuse", ...
  bool told = false;  // the difference needs no reason in corpora.json
  std::string ours;   // the refusal, or how the pixels differ
};

bool IsByName(const absl::Status& refusal) {
  return absl::StrContains(refusal.message(), "is not taken: convert it") ||
         absl::StrContains(refusal.message(), "which is not supported; convert it");
}

Verdict Judge(const std::string& file, const std::string& expected) {
  const auto image = DecodeFitted(file, {});
  if (!image.ok()) {
    const std::string ours(image.status().message());
    if (expected.empty()) return {"both refuse", true, ours};
    return {IsByName(image.status()) ? "refused by name" : "refused", IsByName(image.status()), ours};
  }
  if (expected.empty()) return {"only read here", false, ""};
  const auto pixels = DecodePng(expected);
  if (!pixels.ok()) return {"expected pixels: damaged", false, std::string(pixels.status().message())};
  if (image->size != pixels->size) return {"another size", false, SizeText(image->size)};
  const int largest = test::Compare(*image, *pixels).largest;
  return largest == 0 ? Verdict{"same", true, ""}
                      : Verdict{"other pixels", false, absl::StrCat(largest, " levels")};
}

TEST(CorporaTest, EveryImageIsWhatPillowSeesOrIsNamed) {
  const std::string corpora = support::CachedFile("corpora");
  if (corpora.empty() || support::PeersPython().empty())
    GTEST_SKIP() << "no corpora here (tools/setup --test-tools)";
  const test::TempFolder out;
  support::Program python({support::PeersPython(), "-B", "-W", "ignore",
                           support::TestFile("testdata/kinds/read_corpora.py"), corpora, out.path()});
  ASSERT_EQ(python.Wait(), 0) << python.Text();
  const json reasons = json::parse(test::Read(support::TestFile("testdata/kinds/corpora.json")));
  std::map<std::string, int> counts;
  for (const json& row : json::parse(test::Read(out / "corpora.json"))) {
    const auto name = row["file"].get<std::string>();
    SCOPED_TRACE(name);
    const std::string expected =
        row["expected"].is_null() ? "" : test::Read(out / row["expected"].get<std::string>());
    const Verdict verdict = Judge(test::Read(absl::StrCat(corpora, "/", name)), expected);
    ++counts[verdict.text];
    if (verdict.told) {
      EXPECT_FALSE(reasons.contains(name)) << verdict.text << ": corpora.json needs no reason any more";
    } else {
      EXPECT_TRUE(reasons.contains(name))
          << verdict.text << ": " << verdict.ours << "; Pillow: " << row["why"];
    }
  }
  for (const auto& [text, count] : counts) std::cout << text << ": " << count << "\n";
  EXPECT_GT(counts["same"], 850);
}

}  // namespace
}  // namespace mtrun::datasets
