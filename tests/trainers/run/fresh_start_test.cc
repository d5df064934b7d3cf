// Tests jobs that start over (--resume=false) and whose workers all leave, with threads as workers.
#include "trainers/run/files/fresh_start.h"

#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/small_disk.h"
#include "tests/trainers/run/train_loop_fixture.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/run/files/other_runs.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;
using testing::MemberResult;
using testing::ThreadJob;
using testing::ThreadMembership;

class FreshStartTest : public testing::TrainLoopTest {
 protected:
  void SetUp() override {
    TrainLoopTest::SetUp();
    reference_ = TrainAlone();
    options_.resume = false;
  }
  /// All workers leave after step 4, and leave a checkpoint of 5 steps.
  static void Leave(ThreadMembership& self, int64_t steps) {
    if (steps == 4) self.Drain();
  }
  bool Exists(const std::string& path) const { return fs::exists(folder_.File(path)); }
  /// Creates a run that consists of the first line of its ledger.
  void Begin(uint64_t run) const {
    ASSERT_TRUE(checkpoints::Ledger::Open(folder_.File("ledger.jsonl"), {.run = run, .data = "digest"}).ok());
  }

  at::Tensor reference_;
};

TEST_F(FreshStartTest, JobStartsOverOnceAndThenContinues) {
  agents_ = {{0, "earlier"}};
  TrainAll(1, "run", {{0, Leave}});
  ASSERT_TRUE(Exists("run/step_5/DONE"));
  agents_ = {{0, "job"}, {1, "job"}};
  TrainAll(2, "run", {{0, Leave}, {1, Leave}});
  EXPECT_TRUE(Exists("run/previous_1/step_5/DONE"));
  EXPECT_TRUE(Exists("run/step_5/DONE"));
  // Then train with other workers of the same job.
  for (const MemberResult& result : TrainAll(2, "run")) {
    ExpectComplete(result);
    ExpectSameRun("run", result.weight, reference_);
  }
  EXPECT_FALSE(Exists("run/previous_2"));
  const auto [status, text] = Verify("run");
  EXPECT_EQ(status, 0) << text;
  agents_ = {{0, "later"}};
  ExpectComplete(TrainAll(1, "run")[0]);
  EXPECT_TRUE(Exists("run/previous_2/step_12/DONE"));
}

/// The earlier run has more steps than the job's, in a folder of its own.
TEST_F(FreshStartTest, EarlierRunOfALateNodeIsIgnored) {
  agents_ = {{0, "earlier"}, {1, "job"}};
  ExpectComplete(TrainAll(1, "run0")[0]);
  {
    ThreadJob job({1});
    job.UseNodes();
    Train(job, 1, "run1", Leave);
  }
  ASSERT_TRUE(Exists("run1/step_5/DONE"));
  agents_[0] = "spare";
  nodes_ = true;
  const std::vector<MemberResult> results = TrainAll(2, "run");
  for (const MemberResult& result : results) {
    ExpectComplete(result);
    ExpectSameRun("run1", result.weight, results[1].weight);
  }
  EXPECT_FALSE(Exists("run1/previous_1"));
  EXPECT_TRUE(Exists("run0/previous_1/step_12/DONE"));
}

TEST_F(FreshStartTest, FullDiskOfANonWriterDelaysNoNode) {
  const auto disk = support::SmallDisk::Make(folder_.File("run1"), 64 << 10);
  if (!disk.ok()) GTEST_SKIP() << disk.status().message();
  (*disk)->Fill();
  agents_ = {{0, "job"}, {1, "job's second"}};
  nodes_ = true;
  std::promise<void> done;
  std::thread patience([&, ends = done.get_future()] {
    if (ends.wait_for(std::chrono::minutes(1)) == std::future_status::ready) return;
    ADD_FAILURE() << "it waits for room";
    (*disk)->Free();
  });
  ::testing::internal::CaptureStderr();
  const std::vector<MemberResult> results = TrainAll(2, "run");
  const std::string said = ::testing::internal::GetCapturedStderr();
  done.set_value();
  patience.join();
  for (const MemberResult& result : results) {
    ExpectComplete(result);
    ExpectSameRun("run0", result.weight, reference_);
  }
  EXPECT_THAT(said, ::testing::HasSubstr("if all workers die, the run will start over"));
  EXPECT_TRUE(Exists("run0/.begun"));
}

TEST_F(FreshStartTest, MarkBelongsToOneRunAndOneAgent) {
  EXPECT_FALSE(IsBegunBy(folder_.path(), "job"));
  Begin(7);
  ASSERT_TRUE(MarkBegun(folder_.path(), "job", 7).ok());
  EXPECT_TRUE(IsBegunBy(folder_.path(), "job"));
  EXPECT_FALSE(IsBegunBy(folder_.path(), "another"));
  // This mark is from before the earlier run was moved aside.
  ASSERT_TRUE(MarkBegun(folder_.path(), "another", 9).ok());
  EXPECT_FALSE(IsBegunBy(folder_.path(), "another"));
  // The mark is moved with its run.
  ASSERT_TRUE(MoveAside(folder_.path()).ok());
  EXPECT_FALSE(IsBegunBy(folder_.path(), "job"));
  Begin(8);
  EXPECT_FALSE(IsBegunBy(folder_.path(), "job"));
  EXPECT_TRUE(IsBegunBy(folder_.path() + "/previous_1", "job"));
}

TEST_F(FreshStartTest, NothingIsMarkedWithoutAnAgent) {
  Begin(7);
  ASSERT_TRUE(MarkBegun(folder_.path(), "", 7).ok());
  EXPECT_FALSE(IsBegunBy(folder_.path(), ""));
  EXPECT_FALSE(Exists(".begun"));
}

}  // namespace
}  // namespace mtrun::trainers
