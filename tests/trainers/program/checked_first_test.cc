// Tests what mtrun asks a trainer before it starts any worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/version.h"
#include "tests/trainers/support/trainer_program.h"

namespace mtrun::trainers {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckedFirstTest : public ::testing::Test {
 protected:
  /// Runs `mtrun ARGS`, expects the exit status `status` and returns the output.
  std::string Mtrun(testing::Args args, int status) {
    args.insert(args.begin(), support::BinaryFolder() + "/mtrun");
    support::Program program(args, testing::NoLauncher());
    EXPECT_EQ(program.Wait(), status) << program.Text();
    return program.Text();
  }
  static int Times(const std::string& text, const std::string& what) {
    int times = 0;
    for (const absl::string_view line : absl::StrSplit(text, '\n'))
      times += absl::StrContains(line, what) ? 1 : 0;
    return times;
  }
  const support::TemporaryFolder folder_;
};

TEST_F(CheckedFirstTest, TypoIsReportedOnceAndNoWorkerStarts) {
  const std::string text = Mtrun(
      {"--standalone", "--nproc_per_node", "3", "--trainer", "cnnA", "--data", "d", "--lerning_rate", "1"},
      2);
  EXPECT_EQ(Times(text, "unknown flag --lerning_rate; did you mean --learning_rate?"), 1) << text;
  EXPECT_THAT(text, Not(HasSubstr("generation 1")));
}

TEST_F(CheckedFirstTest, MissingDataIsReportedOnce) {
  const std::string text = Mtrun(
      {"--standalone", "--nproc_per_node", "3", "--trainer", "cnnA", "--data", folder_.File("none")}, 2);
  EXPECT_EQ(Times(text, folder_.File("none")), 1) << text;
}

TEST_F(CheckedFirstTest, MtrunFlagAfterTheTrainerNameIsExplained) {
  const std::string text =
      Mtrun({"--standalone", "--trainer", "cnnA", "--data", "d", "--nproc_per_node", "2"}, 2);
  EXPECT_THAT(text, HasSubstr("--nproc_per_node is a flag of mtrun: put it in front of --trainer cnnA"));
}

TEST_F(CheckedFirstTest, ConfigWithoutASectionIsWarnedAboutOnce) {
  support::WriteText(folder_.File("c.yaml"), "vit:\n  epochs: 1\n");
  const std::string data =
      testing::WritePackedSet(folder_.path(), "data", {.train = 8, .test = 4}, testing::LearnablePixel);
  const std::string text =
      Mtrun({"--standalone", "--nproc_per_node", "2", "--config", folder_.File("c.yaml"), "--trainer", "cnnA",
             "--data", data, "--max_steps", "1", "--model_folder", folder_.File("run")},
            0);
  EXPECT_EQ(Times(text, "section \"cnnA\" is missing"), 1) << text;
}

TEST_F(CheckedFirstTest, HelpVersionAndListArePrinted) {
  const std::string help = Mtrun({"--standalone", "--nproc_per_node", "4", "--trainer", "cnnA", "--help"}, 0);
  EXPECT_EQ(Times(help, "--learning_rate X"), 1);
  EXPECT_THAT(Mtrun({"--trainer", "vit", "--version"}, 0),
              ContainsRegex("vit " + Version() + " \\(commit [0-9a-z]{7,8}, LibTorch 2\\.[0-9]+\\.[0-9]+"));
  const std::string list = Mtrun({"--trainer", "list"}, 0);
  EXPECT_THAT(list, HasSubstr("cnnA        Trains CNN-A"));
  EXPECT_THAT(list, HasSubstr("diffusion   Trains a denoising"));
}

}  // namespace
}  // namespace mtrun::trainers
