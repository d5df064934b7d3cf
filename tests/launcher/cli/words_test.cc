#include "launcher/cli/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/posix.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using Args = std::vector<std::string>;

absl::StatusOr<Args> Flags(const Args& args) {
  return FlagsForWord(args, [](const std::string& run) -> absl::StatusOr<std::string> {
    if (run == "runs/a") return "cnnA";
    return absl::NotFoundError("no run");
  });
}

TEST(Words, StandForFlags) {
  EXPECT_THAT(*Flags({"status", "node1:29400", "--json"}), ElementsAre("--status", "node1:29400", "--json"));
  EXPECT_THAT(*Flags({"doctor"}), ElementsAre("--doctor"));
  EXPECT_THAT(*Flags({"train", "cnnA", "--data", "d"}), ElementsAre("--trainer", "cnnA", "--data", "d"));
  EXPECT_THAT(*Flags({"train", "--nproc_per_node", "2", "cnnA", "--data", "d"}),
              ElementsAre("--nproc_per_node", "2", "--trainer", "cnnA", "--data", "d"));
  EXPECT_THAT(*Flags({"predict", "runs/a", "x.png", "y.png"}),
              ElementsAre("--trainer", "cnnA", "--weights_of", "runs/a", "--predict", "x.png", "y.png"));
  EXPECT_THAT(*Flags({"export", "runs/a", "out"}),
              ElementsAre("--trainer", "cnnA", "--weights_of", "runs/a", "--export", "out"));
}

TEST(Words, LeaveOtherCommandsAlone) {
  for (const Args& args : {Args{}, {"train.py", "status"}, {"--nnodes", "2", "train"}, {"-m", "status"}})
    EXPECT_THAT(*Flags(args), ElementsAreArray(args));
}

TEST(Words, NameAMissingRun) {
  for (const Args& args : {Args{"predict"}, {"predict", "--top_k", "3"}, {"export"}}) {
    const auto flags = Flags(args);
    EXPECT_EQ(flags.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(flags.status().message()),
                HasSubstr("give the run: mtrun " + args[0] + " runs/cnnA"));
  }
  EXPECT_EQ(Flags({"predict", "runs/b", "x.png"}).status().code(), absl::StatusCode::kNotFound);
}

TEST(Words, TrainerOfARunIsTheSectionOfItsSettings) {
  const support::TemporaryFolder folder;
  EXPECT_THAT(std::string(TrainerOfRun(folder.path()).status().message()), HasSubstr("has no config.yaml"));
  support::WriteText(folder.File("config.yaml"), "# settings\nresnet18:\n  epochs: 3\n");
  EXPECT_EQ(*TrainerOfRun(folder.path()), "resnet18");
  support::WriteText(folder.File("config.yaml"), "  epochs: 3\n");
  EXPECT_EQ(TrainerOfRun(folder.path()).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace mtrun::launcher
