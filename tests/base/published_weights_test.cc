#include "base/published_weights.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"
#include "tests/support/status.h"

namespace mtrun {
namespace {

using support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;

TEST(PublishedWeightsTest, NamesEndWithTheBeginOfTheSum) {
  EXPECT_EQ(FindPublished("resnet18")->Digits(), "f37072fd");
  EXPECT_EQ(FindPublished("resnet34")->Digits(), "b627a593");
  EXPECT_EQ(FindPublished("resnet50")->Digits(), "11ad3fa6");
  EXPECT_THAT(
      FindPublished("vit").status(),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("of \"vit\", only of resnet18, resnet34, resnet50")));
}

/// As torch.hub.get_dir of PyTorch 2.11.
TEST(PublishedWeightsTest, FolderIsThatOfTorchHub) {
  EXPECT_EQ(HubFolder({{"HOME", "/h"}}), "/h/.cache/torch/hub/checkpoints");
  EXPECT_EQ(HubFolder({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/c"}}), "/c/torch/hub/checkpoints");
  EXPECT_EQ(HubFolder({{"XDG_CACHE_HOME", "/c"}, {"TORCH_HOME", "/t"}}), "/t/hub/checkpoints");
}

TEST(PublishedWeightsTest, MissingFileSaysWhereItComesFrom) {
  const support::TemporaryFolder folder;
  const EnvironmentMap environment = {{"TORCH_HOME", folder.path()}};
  const PublishedWeights weights = *FindPublished("resnet34");
  const std::string path = folder.File("hub/checkpoints/resnet34-b627a593.pth");
  EXPECT_THAT(FindOnDisk(weights, environment).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr(path + " is not there: `mtdata weights resnet34` fetches it")));
  EXPECT_THAT(std::string(FindOnDisk(weights, environment).status().message()),
              AllOf(HasSubstr("https://download.pytorch.org/models/resnet34-b627a593.pth"),
                    HasSubstr("begins with b627a593")));
  std::filesystem::create_directories(folder.File("hub/checkpoints"));
  support::WriteText(path, "weights");
  EXPECT_EQ(*FindOnDisk(weights, environment), path);
}

}  // namespace
}  // namespace mtrun
