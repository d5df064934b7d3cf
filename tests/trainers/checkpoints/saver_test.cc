#include "trainers/checkpoints/saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/posix.h"
#include "tests/support/asleep.h"
#include "tests/trainers/checkpoints/support/fake_disk.h"

namespace mtrun::checkpoints {
namespace {

using ::testing::ElementsAre;

Snapshot EmptySnapshot(int64_t step) {
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.state = "{}";
  return snapshot;
}

TEST(SaverTest, WritesInTheBackgroundAndAppliesRetention) {
  FakeDisk disk;
  std::vector<int64_t> told;
  {
    Saver saver(disk, {.root = "/run", .unique = "1.1", .keep_last = 2}, [&](const Saver::Result& result) {
      EXPECT_TRUE(result.status.ok()) << result.status;
      told.push_back(result.step);
    });
    for (const int64_t step : {10, 20, 30, 40}) {
      saver.Submit(EmptySnapshot(step), /*best=*/10);
      EXPECT_TRUE(saver.Wait().ok());
    }
  }
  EXPECT_THAT(told, ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(*CompleteSteps(disk, "/run"), ElementsAre(10, 30, 40));
}

/// Submits 10 while 5 is being written, then 15, 20 and 25, and returns the steps that were written.
/// `best_of` returns the best step at each submission.
std::vector<int64_t> WrittenBySlowDisk(const std::function<std::optional<int64_t>(int64_t)>& best_of) {
  FakeDisk disk;
  absl::Notification writing, go_on;
  std::vector<int64_t> written;
  const auto first = [&] {
    if (!writing.HasBeenNotified()) writing.Notify();
    go_on.WaitForNotification();
    return absl::OkStatus();
  };
  Saver saver(disk, {.root = "/run", .unique = "1.1", .keep_last = 1, .first = first},
              [&](const Saver::Result& result) { written.push_back(result.step); });
  for (const int64_t step : {5, 10, 15, 20, 25}) {
    saver.Submit(EmptySnapshot(step), best_of(step));
    writing.WaitForNotification();
  }
  go_on.Notify();
  EXPECT_TRUE(saver.Wait().ok());
  return written;
}

TEST(SaverTest, BestIsNotReplacedByTheNewestOnASlowDisk) {
  EXPECT_THAT(WrittenBySlowDisk([](int64_t) { return std::nullopt; }), ElementsAre(5, 25));
  EXPECT_THAT(WrittenBySlowDisk([](int64_t step) { return std::min<int64_t>(step, 15); }),
              ElementsAre(5, 15, 25));
  EXPECT_THAT(WrittenBySlowDisk([](int64_t step) { return step; }), ElementsAre(5, 25))
      << "the last best one";
  EXPECT_THAT(WrittenBySlowDisk([](int64_t) { return 5; }), ElementsAre(5, 25)) << "written already";
}

TEST(SaverTest, FailureIsReportedUntilTheNextSuccess) {
  FakeDisk disk;
  disk.free_bytes = 0;
  Saver saver(disk, {.root = "/run", .unique = "1.1"}, [](const Saver::Result&) {});
  saver.Submit(EmptySnapshot(10), std::nullopt);
  EXPECT_EQ(saver.Wait().code(), absl::StatusCode::kResourceExhausted);
  disk.free_bytes = 1 << 30;
  saver.Submit(EmptySnapshot(20), std::nullopt);
  EXPECT_TRUE(saver.Wait().ok());
}

TEST(SaverTest, WaitIncludesTheSaveInProgress) {
  FakeDisk disk;
  absl::Notification writing;
  std::atomic<pid_t> waiter = 0;
  std::atomic<bool> returned = false;
  const auto first = [&] {
    writing.Notify();
    while (waiter == 0) std::this_thread::yield();
    EXPECT_TRUE(support::AwaitAsleep(waiter, [&] { return returned.load(); })) << "no save waits in line";
    return absl::OkStatus();
  };
  Saver saver(disk, {.root = "/run", .unique = "1.1", .first = first}, [](const Saver::Result&) {});
  saver.Submit(EmptySnapshot(5), std::nullopt);
  writing.WaitForNotification();
  waiter = support::ThreadId();
  EXPECT_TRUE(saver.Wait().ok());
  returned = true;
}

TEST(SaverTest, ClosingFinishesSubmittedSaves) {
  FakeDisk disk;
  {
    Saver(disk, {.root = "/run", .unique = "1"}, [](const Saver::Result&) {
    }).Submit(EmptySnapshot(7), std::nullopt);
  }
  EXPECT_THAT(*CompleteSteps(disk, "/run"), ElementsAre(7));
}

TEST(RealFilesTest, WritesAndReadsOnARealDisk) {
  const std::string root = *MakeTemporaryFolder("mtrun-checkpoint-");
  Snapshot snapshot = EmptySnapshot(5);
  const std::vector<uint8_t> bytes(1 << 20, 3);
  snapshot.model = {.infos = {{.name = "w", .dtype = datasets::DType::kU8, .shape = {1 << 20}}},
                    .bytes = {absl::Span<const uint8_t>(bytes)}};
  ASSERT_TRUE(WriteCheckpoint(RealFiles(), root, snapshot, "1").ok());
  ASSERT_TRUE(WriteCheckpoint(RealFiles(), root, snapshot, "2").ok()) << "a complete step is left as it is";
  const auto search = FindNewest(RealFiles(), root);
  ASSERT_TRUE(search.ok() && search->newest);
  EXPECT_EQ(search->newest->step, 5);
  EXPECT_GT(search->newest->model.size(), size_t{1 << 20});
  EXPECT_EQ(RealFiles().Rename(root + "/step_5", root + "/step_5").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(RealFiles().Create(root + "/step_5/DONE").status().code() == absl::StatusCode::kAlreadyExists);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace mtrun::checkpoints
