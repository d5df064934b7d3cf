#include "trainers/program/starting_weights.h"

#include <cstdlib>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"
#include "tests/support/status.h"

namespace mtrun::trainers {
namespace {

using support::StatusIs;
using ::testing::HasSubstr;

class StartingWeightsTest : public ::testing::Test {
 protected:
  StartingWeightsTest() { setenv("TORCH_HOME", folder_.path().c_str(), 1); }
  ~StartingWeightsTest() override { unsetenv("TORCH_HOME"); }

  absl::StatusOr<std::string> Of(const std::string& weights, const std::string& depth = "") {
    std::vector<SettingSpec> specs = {{.name = "weights", .default_text = weights}};
    if (!depth.empty()) specs.push_back({.name = "depth", .default_text = depth});
    return StartingWeights(Settings("resnet", specs));
  }

  const support::TemporaryFolder folder_;
};

TEST_F(StartingWeightsTest, PathsStay) {
  EXPECT_EQ(*Of(""), "");
  EXPECT_EQ(*Of("mine.pth", "50"), "mine.pth");
  EXPECT_EQ(*Of("./imagenet"), "./imagenet");
}

TEST_F(StartingWeightsTest, ImageNetIsTheFileOfTheDepth) {
  EXPECT_THAT(Of("imagenet").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("`mtdata weights resnet18` fetches it")));
  EXPECT_THAT(Of("imagenet", "50").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("--weights imagenet: ")));
  const std::string file = folder_.File("hub/checkpoints/resnet50-11ad3fa6.pth");
  std::filesystem::create_directories(folder_.File("hub/checkpoints"));
  support::WriteText(file, "weights");
  EXPECT_EQ(*Of("imagenet", "50"), file);
}

}  // namespace
}  // namespace mtrun::trainers
