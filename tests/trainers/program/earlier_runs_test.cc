// Runs of earlier releases (tests/testdata/formats) are continued by today's programs.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainers/support/trainer_program.h"

namespace mtrun::trainers {
namespace {

using support::ReadText;
using testing::Args;
using ::testing::HasSubstr;

constexpr char kFormats[] = "testdata/formats/0.1.0";

class EarlierRuns : public ::testing::Test {
 protected:
  /// A copy of a run of that release, which today's programs may change.
  std::string Copy(const std::string& run) {
    const std::string copy = folder_.File(run);
    std::filesystem::copy(support::TestFile(std::string(kFormats) + "/" + run), copy,
                          std::filesystem::copy_options::recursive);
    return copy;
  }
  /// As its user would: the run's own settings, and what is new.
  Args Continue(const std::string& run, const Args& more) {
    Args args = {"--config",       run + "/config.yaml",
                 "--model_folder", run,
                 "--data",         support::TestFile(std::string(kFormats) + "/data")};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  support::TemporaryFolder folder_;
};

TEST_F(EarlierRuns, ACheckpointIsContinued) {
  const std::string run = Copy("run");
  const std::string text = testing::Run("cnnA", 1, Continue(run, {"--max_steps", "0"}));
  EXPECT_THAT(text, HasSubstr("step_10"));
  const std::vector<testing::StepLine> steps = testing::Steps(run);
  ASSERT_EQ(steps.size(), 12u) << "three epochs of four steps";
  EXPECT_LT(steps[11].loss, steps[0].loss / 2) << "the weights went on from where they were";
  support::Program verify({"python3", support::TestFile("../tools/verify_ledger"), run});
  EXPECT_EQ(verify.Wait(), 0) << verify.Text();
}

TEST_F(EarlierRuns, AnotherRunsSettingsAreStillRefused) {
  const std::string run = Copy("run");
  const auto seed = testing::Start("cnnA", Continue(run, {"--max_steps", "0", "--seed", "3"}));
  EXPECT_EQ(seed->Wait(), 2);
  EXPECT_THAT(seed->Text(), HasSubstr("seed is 3, the checkpoint has 0"));
}

TEST_F(EarlierRuns, OneWithOptionsOfItsOwnIsContinued) {
  const std::string run = Copy("run_diffusion");
  const Args to_step_3 = {"--max_steps", "3", "--random_streams", "new"};
  EXPECT_THAT(testing::Run("diffusion", 1, Continue(run, to_step_3)), HasSubstr("step_2"));
  EXPECT_THAT(ReadText(run + "/ledger.jsonl"), HasSubstr("\"step\":2,"));
  const auto guidance = testing::Start("diffusion", Continue(run, {"--max_steps", "4", "--guidance", "2"}));
  EXPECT_EQ(guidance->Wait(), 2);
  EXPECT_THAT(guidance->Text(), HasSubstr("guidance is 2, the checkpoint has 0"));
}

/// A diffusion draws noise: another one than the steps before had, where nobody says that this is meant.
TEST_F(EarlierRuns, OneWithOtherRandomNumbersIsContinuedOnPurposeAlone) {
  const auto unasked = testing::Start("diffusion", Continue(Copy("run_diffusion"), {"--max_steps", "3"}));
  EXPECT_EQ(unasked->Wait(), 2);
  EXPECT_THAT(unasked->Text(), HasSubstr("--random_streams new goes on from it"));
}

/// A restart may compute in another precision and layout.
TEST_F(EarlierRuns, IsContinuedInAnotherPrecision) {
  const std::string run = Copy("run");
  testing::Run("cnnA", 2, Continue(run, {"--max_steps", "11", "--amp", "bf16", "--channels_last", "on"}));
  EXPECT_EQ(testing::Steps(run).size(), 11u);
}

}  // namespace
}  // namespace mtrun::trainers
