#include "report/read_run.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(ReadRun, ARunOf010) {
  const auto run = ReadRun(support::TestFile("testdata/formats/0.1.0/run"));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->name, "run");
  EXPECT_EQ(run->program, "cnnA");
  EXPECT_EQ(run->steps.size(), 10u);
  EXPECT_EQ(run->steps[0].loss, 2.363410472869873);
  EXPECT_EQ(run->epochs.size(), 3u);
  EXPECT_EQ(run->epochs[2].test_accuracy, 0.5);
  EXPECT_THAT(run->worlds, ElementsAre(Pair(0, 2), Pair(3, 1)));
  ASSERT_EQ(run->generations.size(), 1u);
  EXPECT_EQ(run->generations[0].number, 2u);
  ASSERT_TRUE(run->result);
  EXPECT_EQ(run->result->confusion[1][1], 1);
  ASSERT_EQ(run->checkpoints.size(), 1u);
  EXPECT_EQ(run->checkpoints[0].steps, 10);
  EXPECT_EQ(run->unread_lines, 0);
}

TEST(ReadRun, ARunThatStopped) {
  const auto run = ReadRun(support::TestFile("testdata/formats/0.1.0/run_diffusion"));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_FALSE(run->result);
  EXPECT_EQ(run->program, "diffusion");
}

TEST(ReadRun, ThePicturesOfTheLastSteps) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("config.yaml"), "diffusion:\n");
  for (const char* name : {"samples_0000001.png", "samples_0000002.png", "samples_0000003.png",
                           "samples_0000004.png", "preview.png", "other.png", "samples.txt"})
    support::WriteText(folder.File(name), name);
  const auto run = ReadRun(folder.path());
  ASSERT_TRUE(run.ok()) << run.status();
  std::vector<std::string> names;
  for (const Picture& picture : run->pictures) names.push_back(picture.name);
  EXPECT_THAT(
      names, ElementsAre("preview.png", "samples_0000002.png", "samples_0000003.png", "samples_0000004.png"));
}

TEST(ReadRun, AnotherFolderIsNone) {
  const support::TemporaryFolder folder;
  const auto run = ReadRun(folder.path());
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("is no run folder"));
}

}  // namespace
}  // namespace mtrun::report
