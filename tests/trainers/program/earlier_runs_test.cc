// Today's programs continue runs of earlier releases (tests/testdata/formats).
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/releases.h"
#include "tests/trainers/support/trainer_program.h"

namespace mtrun::trainers {
namespace {

using support::ReadText;
using testing::Args;
using ::testing::HasSubstr;

class EarlierRuns : public ::testing::TestWithParam<std::string> {
 protected:
  static std::string File(const std::string& name) {
    return support::TestFile("testdata/formats/" + GetParam() + "/" + name);
  }
  /// Returns a copy of a run of that release, which today's programs may change.
  std::string Copy(const std::string& run) {
    const std::string copy = folder_.File(run);
    std::filesystem::copy(
        File(run), copy,
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
    return copy;
  }
  /// Returns the arguments that its user would give: the run's own settings and the new ones.
  Args Continue(const std::string& run, const Args& more) {
    Args args = {"--config", run + "/config.yaml", "--model_folder", run, "--data", File("data")};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  /// Returns true if this release drew other random numbers than today's programs.
  static bool DrewOtherNumbers() { return GetParam() == "0.1.0"; }

  support::TemporaryFolder folder_;
};

TEST_P(EarlierRuns, ContinuesACheckpoint) {
  const std::string run = Copy("run");
  const std::string text = testing::Run("cnnA", 1, Continue(run, {"--max_steps", "0"}));
  EXPECT_THAT(text, HasSubstr("step_10"));
  const std::vector<testing::StepLine> steps = testing::Steps(run);
  ASSERT_EQ(steps.size(), 12u) << "three epochs of four steps";
  EXPECT_LT(steps[11].loss, steps[0].loss / 2) << "the weights went on from where they were";
  support::Program verify({"python3", support::TestFile("../tools/verify_ledger"), run});
  EXPECT_EQ(verify.Wait(), 0) << verify.Text();
}

TEST_P(EarlierRuns, SettingsOfAnotherRunAreStillRefused) {
  const std::string run = Copy("run");
  const auto seed = testing::Start("cnnA", Continue(run, {"--max_steps", "0", "--seed", "3"}));
  EXPECT_EQ(seed->Wait(), 2);
  EXPECT_THAT(seed->Text(), HasSubstr("seed is 3, but the checkpoint has 0"));
}

TEST_P(EarlierRuns, RunWithProgramSpecificOptionsIsContinued) {
  const std::string run = Copy("run_diffusion");
  Args to_step_3 = {"--max_steps", "3"};
  if (DrewOtherNumbers()) to_step_3.insert(to_step_3.end(), {"--random_streams", "new"});
  EXPECT_THAT(testing::Run("diffusion", 1, Continue(run, to_step_3)), HasSubstr("step_2"));
  EXPECT_THAT(ReadText(run + "/ledger.jsonl"), HasSubstr("\"step\":2,"));
  const auto guidance = testing::Start("diffusion", Continue(run, {"--max_steps", "4", "--guidance", "2"}));
  EXPECT_EQ(guidance->Wait(), 2);
  EXPECT_THAT(guidance->Text(), HasSubstr("guidance is 2, but the checkpoint has 0"));
}

/// If the noise would differ from that of the previous steps, the user must state that this is intended.
TEST_P(EarlierRuns, RunWithOtherRandomNumbersIsContinuedOnlyOnRequest) {
  const auto unasked = testing::Start("diffusion", Continue(Copy("run_diffusion"), {"--max_steps", "3"}));
  EXPECT_EQ(unasked->Wait(), DrewOtherNumbers() ? 2 : 0);
  EXPECT_THAT(unasked->Text(), HasSubstr(DrewOtherNumbers() ? "--random_streams new continues" : "step_2"));
}

/// A restart may use another precision and layout.
TEST_P(EarlierRuns, IsContinuedInAnotherPrecision) {
  const std::string run = Copy("run");
  testing::Run("cnnA", 2, Continue(run, {"--max_steps", "11", "--amp", "bf16", "--channels_last", "on"}));
  EXPECT_EQ(testing::Steps(run).size(), 11u);
}

INSTANTIATE_TEST_SUITE_P(Release, EarlierRuns, ::testing::ValuesIn(support::Releases()),
                         support::ReleaseTestName);

}  // namespace
}  // namespace mtrun::trainers
