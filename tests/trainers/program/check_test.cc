// Runs programs with --check: it says what they would train and what is wrong, and trains nothing.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/trainers/support/trainer_program.h"
#include "trainers/models/cnn_a.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckTest : public ::testing::Test {
 protected:
  CheckTest()
      : data_(testing::WritePackedSet(folder_.path(), "data", {.train = 100, .test = 40},
                                      testing::LearnablePixel)) {}
  /// Returns the output of cnnA on the run folder, after it has ended with `status`.
  std::string CnnA(testing::Args more, int status) {
    testing::Args args = {"--data",       data_, "--model_folder", run_,
                          "--batch_size", "8",   "--global_batch", "8"};
    args.insert(args.end(), more.begin(), more.end());
    const auto program = testing::Start("cnnA", args);
    EXPECT_EQ(program->Wait(), status) << program->Text();
    return program->Text();
  }
  /// Returns a file of weights of cnnA's network, with `value` in its first parameter.
  std::string Weights(double value) const {
    const models::CnnA network(1);
    NamedTensors state = StateDict(network);
    state[0].second = at::full_like(state[0].second, value);
    const std::string path = folder_.File("w.safetensors");
    EXPECT_TRUE(SaveTensors(path, state, {}).ok());
    return path;
  }

  const support::TemporaryFolder folder_;
  const std::string data_, run_ = folder_.File("run");
};

TEST_F(CheckTest, SaysWhatTheRunWillBe) {
  const std::string text =
      CnnA({"--check", "--epochs", "2", "--schedule", "cosine", "--init_from", Weights(0)}, 0);
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("100 training images of "), HasSubstr("; 40 images are evaluated after each epoch"),
            HasSubstr("9986 parameters; "), HasSubstr("starts from " + folder_.File("w.safetensors")),
            HasSubstr("13 an epoch, each of 8 images in micro-batches of 8; 26 in all, 2 epochs"),
            HasSubstr("learning rate  cosine: "), HasSubstr(run_ + ": a new run begins")));
  EXPECT_THAT(text, Not(HasSubstr("epoch 1/2")));
}

TEST_F(CheckTest, SaysAllThatIsWrong) {
  CnnA({"--max_steps", "4"}, 0);
  EXPECT_THAT(CnnA({"--check"}, 0), HasSubstr(run_ + ": the run continues after step 4"));
  const std::string other = CnnA({"--check", "--seed", "9"}, 2);
  EXPECT_THAT(other, AllOf(HasSubstr("13 an epoch"), HasSubstr("has a checkpoint of another run"),
                           HasSubstr("seed")));
  EXPECT_THAT(CnnA({"--check", "--init_from", Weights(std::nan(""))}, 2),
              AllOf(HasSubstr("--init_from " + folder_.File("w.safetensors")), HasSubstr(" has NaN in ")));
  EXPECT_THAT(CnnA({"--check", "--init_from", folder_.File("none")}, 2), HasSubstr("--init_from: "));
}

/// mtrun looks at the weights once, before any worker starts, and says nothing of a run that is fine.
TEST_F(CheckTest, MtrunRefusesUnfitWeightsBeforeWorkersStart) {
  const auto mtrun = [&](const testing::Args& more, int status) {
    testing::Args args = {support::BinaryFolder() + "/mtrun",
                          "--standalone",
                          "--nproc_per_node",
                          "2",
                          "--trainer",
                          "cnnA",
                          "--data",
                          data_,
                          "--model_folder",
                          run_,
                          "--max_steps",
                          "2"};
    args.insert(args.end(), more.begin(), more.end());
    support::Program program(args, testing::NoLauncher());
    EXPECT_EQ(program.Wait(), status) << program.Text();
    return program.Text();
  };
  const std::string refused = mtrun({"--init_from", Weights(std::nan(""))}, 2);
  EXPECT_THAT(refused, AllOf(HasSubstr(" has NaN in "), Not(HasSubstr("generation 1"))));
  EXPECT_THAT(mtrun({"--init_from", Weights(0)}, 0), Not(HasSubstr("what this command trains")));
}

}  // namespace
}  // namespace mtrun::trainers
