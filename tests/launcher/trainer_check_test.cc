#include "launcher/trainer_check.h"

#include <gmock/gmock.h>

namespace mtrun::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TrainerCheck, FlagsOfMtrunBehindTheTrainersNameAreKnown) {
  EXPECT_THAT(MisplacedFlags({"--data", "d", "--nproc-per-node=4", "--nnodes", "2", "--batch_size", "8"}),
              ElementsAre("--nproc_per_node", "--nnodes"));
  EXPECT_THAT(MisplacedFlags({"--config", "c.yaml", "--help", "--version", "nnodes", "-n"}), IsEmpty())
      << "both have these, or they are no flags";
}

TEST(TrainerCheck, HelpIsTheTrainers) {
  EXPECT_TRUE(AsksTrainer({"--data", "d", "--help"}));
  EXPECT_TRUE(AsksTrainer({"--version"}));
  EXPECT_FALSE(AsksTrainer({"--data", "help"}));
}

}  // namespace
}  // namespace mtrun::launcher
