#include "launcher/trainer_check.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The program that trainer.sh starts is next to trainer.sh's folder.
TEST(TrainerCheck, InstalledTrainersAreRecognized) {
  const support::TemporaryFolder top;
  const std::string bin = top.File("bin");
  const auto make = [&](const std::string& name, bool executable = true) {
    std::filesystem::create_directories(std::filesystem::path(top.File(name)).parent_path());
    support::WriteText(top.File(name), "#!/bin/sh\n", executable);
    return top.File(name);
  };
  for (const std::string prefix : {"", "lib/python3.11/site-packages/mtrun/"}) {
    const std::string trainer = make(prefix + "libexec/mtrun/trainers/cnnA");
    EXPECT_FALSE(ComesWithMtrun(trainer, bin)) << "there is nothing that it could start";
    const std::string started = make(prefix + "libexec/mtrun/trainer", false);
    EXPECT_FALSE(ComesWithMtrun(trainer, bin)) << "nor can this be started";
    std::filesystem::permissions(started, std::filesystem::perms::owner_all);
    EXPECT_TRUE(ComesWithMtrun(trainer, bin));
    EXPECT_FALSE(ComesWithMtrun(trainer + "A", bin)) << "there is none of this name";
    EXPECT_FALSE(ComesWithMtrun(trainer, top.File("other/bin"))) << "it came with another mtrun";
  }
  EXPECT_FALSE(ComesWithMtrun(make("mine/cnnA"), bin));
}

TEST(TrainerCheck, LinksInABuildTreeAreRecognized) {
  const support::TemporaryFolder top;
  support::WriteText(top.File("trainer"), "#!/bin/sh\n", true);
  std::filesystem::create_symlink("trainer", top.File("cnnA"));
  EXPECT_TRUE(ComesWithMtrun(top.File("cnnA"), top.path()));
}

TEST(TrainerCheck, MtrunFlagsAfterTheTrainersNameAreRecognized) {
  EXPECT_THAT(MisplacedFlags({"--data", "d", "--nproc-per-node=4", "--nnodes", "2", "--batch_size", "8"}),
              ElementsAre("--nproc_per_node", "--nnodes"));
  EXPECT_THAT(MisplacedFlags({"--config", "c.yaml", "--help", "--version", "nnodes", "-n"}), IsEmpty())
      << "both have these, or they are no flags";
}

TEST(TrainerCheck, HelpAfterTheTrainersNameIsForTheTrainer) {
  EXPECT_TRUE(AsksTrainer({"--data", "d", "--help"}));
  EXPECT_TRUE(AsksTrainer({"--version"}));
  EXPECT_FALSE(AsksTrainer({"--data", "help"}));
}

TEST(TrainerCheck, OtherTasksThanTrainingAreRecognized) {
  for (const char* flag : {"--predict", "--export=out", "--check", "--preview", "--sample"}) {
    EXPECT_TRUE(AsksOneProcess({"--data", "d", flag, "8"})) << flag;
    EXPECT_FALSE(AsksEvaluation({flag, "8"})) << flag;
  }
  for (const char* word : {"--evaluate", "--data", "--predicted", "predict", "--check_settings"})
    EXPECT_FALSE(AsksOneProcess({word, "8"})) << word;
  EXPECT_TRUE(AsksEvaluation({"--evaluate", "runs/a"}));
  EXPECT_FALSE(AsksEvaluation({"--eval_images", "8"}));
}

}  // namespace
}  // namespace mtrun::launcher
