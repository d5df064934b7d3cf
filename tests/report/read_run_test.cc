#include "report/read_run.h"

#include <sys/stat.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"
#include "tests/support/releases.h"

namespace mtrun::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(ReadRun, ReadsARunOfRelease010) {
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

class ReadEarlierRun : public ::testing::TestWithParam<std::string> {};

TEST_P(ReadEarlierRun, FindsStepsEpochsAndResult) {
  const auto run = ReadRun(support::TestFile("testdata/formats/" + GetParam() + "/run"));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->program, "cnnA");
  EXPECT_EQ(run->steps.size(), 10u);
  EXPECT_NEAR(run->steps[0].loss, 2.3634105, 1e-6) << "one recipe, one set of images";
  ASSERT_EQ(run->epochs.size(), 3u);
  EXPECT_EQ(run->epochs[2].test_accuracy, 0.5);
  EXPECT_THAT(run->worlds, ElementsAre(Pair(0, 2), Pair(3, 1)));
  ASSERT_TRUE(run->result);
  EXPECT_EQ(run->checkpoints.size(), 1u);
  EXPECT_EQ(run->unread_lines, 0);
}

INSTANTIATE_TEST_SUITE_P(Release, ReadEarlierRun, ::testing::ValuesIn(support::Releases()),
                         support::ReleaseTestName);

TEST(ReadRun, ReadsAStoppedRun) {
  const auto run = ReadRun(support::TestFile("testdata/formats/0.1.0/run_diffusion"));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_FALSE(run->result);
  EXPECT_EQ(run->program, "diffusion");
}

TEST(ReadRun, ReadsThePicturesOfTheLastSteps) {
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

TEST(ReadRun, TooLongLineIsSkippedAndCounted) {
  const support::TemporaryFolder folder;
  const auto step = [](int number) {
    return absl::StrCat(R"({"step":)", number, R"(,"loss":1,"lr":0.1,"seconds":1,"samples":8})", "\n");
  };
  // The second line is longer than a block that is read at once.
  for (const size_t bytes : {300'000, 3'000'000}) {
    support::WriteText(folder.File("metrics.jsonl"),
                       absl::StrCat(step(0), std::string(bytes, 'x'), "\n", step(1)));
    const auto run = ReadRun(folder.path());
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->steps.size(), 2u);
    EXPECT_EQ(run->unread_lines, 1);
  }
}

TEST(ReadRun, UnterminatedLineIsStillBeingWritten) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("metrics.jsonl"), R"({"step":0,"loss":1})"
                                                   "\n"
                                                   R"({"step":1,"lo)");
  const auto run = ReadRun(folder.path());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->steps.size(), 1u);
  EXPECT_EQ(run->unread_lines, 0);
}

/// Reading it would wait for a writer.
TEST(ReadRun, PipesAreNotRead) {
  const support::TemporaryFolder folder;
  for (const char* name : {"metrics.jsonl", "ledger.jsonl", "config.yaml", "environment.json", "report.json"})
    ASSERT_EQ(mkfifo(folder.File(name).c_str(), 0600), 0);
  const auto run = ReadRun(folder.path());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(run->steps.empty());
  EXPECT_EQ(run->unread_lines, 0);
}

TEST(ReadRun, OtherFolderIsNotARun) {
  const support::TemporaryFolder folder;
  const auto run = ReadRun(folder.path());
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("is not a run folder"));
}

}  // namespace
}  // namespace mtrun::report
