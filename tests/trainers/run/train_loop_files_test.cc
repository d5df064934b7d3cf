// Tests what the loop leaves on the disk when a worker leaves: the real loop with threads as workers.
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "tests/trainers/run/train_loop_fixture.h"
#include "trainers/device/torch_status.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;
using testing::MemberResult;
using ::testing::StartsWith;
using testing::ThreadMembership;

class TrainLoopFilesTest : public testing::TrainLoopTest {};

/// The next writer may open the files before this writer's last checkpoint is on the disk.
TEST_F(TrainLoopFilesTest, LeavingWriterHasRecordedItsSteps) {
  std::string metrics;
  const auto leave = [&](ThreadMembership& self, int64_t steps) {
    if (steps != 3) return;
    self.OnLeaving([&] { metrics = support::ReadText(folder_.File("run") + "/metrics.jsonl"); });
    self.Drain();
  };
  const std::vector<MemberResult> results = TrainAll(2, "run", {{0, leave}});
  ExpectComplete(results[1]);
  EXPECT_THAT(metrics, HasSubstr("{\"step\":3,"));
}

/// The source of a worker that is drained while it waits for another copy of a step's images. Its first
/// `before` micro-batches are computed by then.
class EndsInAStep : public MicroBatchSource {
 public:
  EndsInAStep(MicroBatchSource& source, int64_t step, int before)
      : source_(source), step_(step), left_(before) {}
  int64_t micro_batches() const override { return source_.micro_batches(); }
  int64_t SamplesInStep(int64_t step) const override { return source_.SamplesInStep(step); }
  int64_t SamplesInMicroBatch(int64_t step, int64_t micro_batch) const override {
    return source_.SamplesInMicroBatch(step, micro_batch);
  }
  Batch Make(int64_t step, int64_t micro_batch) override {
    if (step == step_ && left_-- == 0) throw StatusError(absl::CancelledError("told to go"));
    return source_.Make(step, micro_batch);
  }

 private:
  MicroBatchSource& source_;
  const int64_t step_;
  int left_;
};

TEST_F(TrainLoopFilesTest, WorkerDrainedWithinAStepSavesTheStateBeforeIt) {
  const at::Tensor reference = TrainAlone();
  mutants_[0] = [](MicroBatchSource& source) { return std::make_unique<EndsInAStep>(source, 3, 1); };
  const MemberResult result = TrainAll(1, "run")[0];
  ASSERT_TRUE(result.outcome.ok()) << result.outcome.status();
  EXPECT_EQ(result.outcome->signal, SIGTERM);
  EXPECT_THAT(result.outcome->stopped,
              StartsWith("told to go: stopped at step 3 of 12; the same command continues"));
  mutants_.clear();
  const MemberResult again = TrainAll(1, "run")[0];
  ExpectComplete(again);
  ExpectSameRun("run", again.weight, reference);
  const auto [status, text] = Verify("run");
  EXPECT_EQ(status, 0) << text;
}

/// Without a launcher, a signal reaches one worker in the step's exchange and another in a wait for images.
TEST_F(TrainLoopFilesTest, WorkerDrainedAfterOthersWithoutALauncherSavesAndStopsAlike) {
  const at::Tensor reference = TrainAlone();
  launcher_ = false;
  mutants_[0] = [](MicroBatchSource& source) { return std::make_unique<EndsInAStep>(source, 3, 0); };
  const auto told = [](ThreadMembership& self, int64_t steps) {
    if (steps == 3) self.Drain();
  };
  const std::vector<MemberResult> results = TrainAll(3, "run", {{1, told}});
  for (const int stops : {0, 1}) {
    const MemberResult& result = results[static_cast<size_t>(stops)];
    ASSERT_TRUE(result.outcome.ok()) << result.outcome.status();
    EXPECT_EQ(result.outcome->signal, SIGTERM);
    EXPECT_THAT(result.outcome->stopped,
                StartsWith("told to go: stopped at step 3 of 12; the same command continues"));
  }
  EXPECT_EQ(results[2].outcome.status().code(), absl::StatusCode::kUnavailable)
      << results[2].outcome.status();  // it received no signal
  mutants_.clear();
  launcher_ = true;
  const MemberResult again = TrainAll(1, "run")[0];
  ExpectComplete(again);
  ExpectSameRun("run", again.weight, reference);
}

TEST_F(TrainLoopFilesTest, LastStateIsSavedIfFoldersCannotBeLocked) {
  const auto goes_while_it_waits = [](ThreadMembership& self, int64_t steps) {
    if (steps != 3) return;
    self.EndGeneration();
    self.Drain();
  };
  for (const int reason : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
    const std::string run = absl::StrCat("run", reason);
    SCOPED_TRACE(run);
    lock_folder_ = [reason](const std::string& path) { return ErrnoStatus(reason, "lock " + path); };
    ::testing::internal::CaptureStderr();
    const MemberResult result = TrainAll(1, run, {{0, goes_while_it_waits}})[0];
    const std::string said = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(result.outcome.ok()) << result.outcome.status();
    EXPECT_EQ(result.outcome->signal, SIGTERM);
    EXPECT_THAT(result.outcome->stopped, HasSubstr("stopped at step 3 of 12; the same command continues"));
    EXPECT_TRUE(std::filesystem::exists(folder_.File(run) + "/step_3/DONE"));
    EXPECT_THAT(said, HasSubstr("saving the last state without a lock"));
  }
}

}  // namespace
}  // namespace mtrun::trainers
