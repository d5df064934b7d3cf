#include "trainers/program/normalization.h"

#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "tests/support/program.h"
#include "trainers/program/description.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NormalizationTest : public ::testing::Test {
 protected:
  std::string Weights(int64_t classes, const std::map<std::string, std::string>& metadata = {}) const {
    const std::string path = folder_.File(absl::StrCat(classes, "-", metadata.size(), ".safetensors"));
    EXPECT_TRUE(SaveTensors(path, {{"fc.weight", at::zeros({classes, 2})}}, metadata).ok());
    return path;
  }
  /// Returns the resolved value of --normalize.
  std::string Resolved(const std::string& weights, const std::string& asked = "auto",
                       const checkpoints::Identity& continued = {}) {
    Settings settings(
        "resnet18", {{.name = "weights", .default_text = ""}, {.name = "normalize", .default_text = "auto"}});
    std::vector<std::string> flags;
    if (!weights.empty()) flags = {"--weights", weights};
    if (asked != "auto") flags.insert(flags.end(), {"--normalize", asked});
    EXPECT_TRUE(settings.ParseFlags(flags, /*positionals_allowed=*/false).ok());
    ::testing::internal::CaptureStderr();
    const absl::Status resolved = ResolveNormalize(continued, /*first=*/true, settings);
    said_ = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(resolved.ok()) << resolved;
    return settings.Text("normalize");
  }

  const support::TemporaryFolder folder_;
  std::string said_;
};

TEST_F(NormalizationTest, ImageNetWeightsUseImageNetNormalisation) {
  EXPECT_EQ(Resolved(Weights(1000)), "imagenet");
  EXPECT_THAT(said_, HasSubstr("with --normalize imagenet for "));
  EXPECT_THAT(said_, HasSubstr("ImageNet's 1000 classes"));
}

TEST_F(NormalizationTest, OtherWeightsReportWhyTheyDoNot) {
  EXPECT_EQ(Resolved(Weights(10)), "half");
  EXPECT_THAT(said_, HasSubstr("its last layer has 10 classes, not ImageNet's 1000"));
  EXPECT_EQ(Resolved(""), "half");
  EXPECT_THAT(said_, IsEmpty()) << "there are none";
}

TEST_F(NormalizationTest, OwnWeightsRecordTheirNormalisation) {
  const Description about{.program = "resnet18",
                          .classes = {"a", "b"},
                          .image_size = 64,
                          .input_size = 64,
                          .images = {.height = 64, .width = 64},
                          .settings = {{"normalize", "imagenet"}}};
  EXPECT_EQ(Resolved(Weights(2, ToMetadata(about))), "imagenet");
}

TEST_F(NormalizationTest, ExplicitSettingWinsWithAWarning) {
  EXPECT_EQ(Resolved(Weights(1000), "half"), "half");
  EXPECT_THAT(said_, HasSubstr("was trained with imagenet"));
  EXPECT_EQ(Resolved(Weights(10), "imagenet"), "imagenet");
  EXPECT_THAT(said_, IsEmpty()) << "nobody knows";
}

TEST_F(NormalizationTest, RunKeepsItsNormalisation) {
  EXPECT_EQ(Resolved(Weights(1000), "auto", {{"normalize", "half"}}), "half");
  EXPECT_EQ(Resolved(Weights(1000), "imagenet", {{"normalize", "half"}}), "imagenet")
      << "and is refused, as another run";
}

TEST_F(NormalizationTest, MissingFileIsNamed) {
  const auto none = PixelsOf(folder_.File("none.pth"), "fc.weight");
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("none.pth"));
  Settings settings("resnet18", {{.name = "weights", .default_text = folder_.File("none.pth")},
                                 {.name = "normalize", .default_text = "auto"}});
  EXPECT_THAT(std::string(ResolveNormalize({}, /*first=*/true, settings).message()),
              HasSubstr("--weights: "));
}

}  // namespace
}  // namespace mtrun::trainers
