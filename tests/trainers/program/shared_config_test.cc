// Uses one --config file for mtrun, our trainers and trainers that a user adds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainers/support/trainer_program.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

class SharedConfig : public ::testing::Test {
 protected:
  SharedConfig() {
    data_ = testing::WritePackedSet(folder_.path(), "data", {.train = 8, .test = 4}, testing::LearnablePixel);
    // A trainer outside the source tree, which reads its own section in its own way.
    support::WriteText(
        folder_.File("my_trainer"),
        "#!/bin/sh\n"
        "echo \"rank $RANK has $(sed -n '/^my_trainer:/,/^[^ ]/s/^  depth: //p' \"$2\") layers\"\n",
        /*executable=*/true);
    support::WriteText(
        config_,
        "mtrun:\n  nproc_per_node: 2\nmy_trainer:\n  depth: 7\n  shape: {wide: true}\ncnnA:\n  data: " +
            data_ + "\n  max_steps: 3\n  batch_size: 2\n  model_folder: " + folder_.File("run") + "\n");
  }
  std::unique_ptr<support::Program> Mtrun(const std::string& trainer) {
    support::Overlay overlay = testing::NoLauncher();
    overlay["MTRUN_TRAINER_PATH"] = folder_.path();
    return std::make_unique<support::Program>(
        testing::Args{support::BinaryFolder() + "/mtrun", "--standalone", "--config", config_, "--trainer",
                      trainer, "--config", config_},
        overlay);
  }
  support::TemporaryFolder folder_;
  const std::string config_ = folder_.File("shared.yaml");
  std::string data_;
};

TEST_F(SharedConfig, OurTrainerIgnoresOtherSections) {
  const auto job = Mtrun("cnnA");
  ASSERT_EQ(job->Wait(), 0) << job->Text();
  EXPECT_EQ(testing::Steps(folder_.File("run")).size(), 3u);
  EXPECT_EQ(testing::Report(folder_.File("run"))["world_size"], 2);
  EXPECT_THAT(job->Text(), ::testing::Not(HasSubstr("is not read")));
}

TEST_F(SharedConfig, UsersTrainerReadsItsOwnSection) {
  const auto job = Mtrun("my_trainer");
  ASSERT_EQ(job->Wait(), 0) << job->Text();
  EXPECT_THAT(job->Text(), HasSubstr("rank 0 has 7 layers"));
  EXPECT_THAT(job->Text(), HasSubstr("rank 1 has 7 layers"));
}

TEST_F(SharedConfig, UnknownKeyInItsOwnSectionIsAnError) {
  support::WriteText(config_, "my_trainer:\n  depth: 7\ncnnA:\n  dept: 7\n");
  const auto job = Mtrun("cnnA");
  EXPECT_NE(job->Wait(), 0);
  EXPECT_THAT(job->Text(), HasSubstr("shared.yaml:4: unknown key \"dept\""));
}

}  // namespace
}  // namespace mtrun::trainers
