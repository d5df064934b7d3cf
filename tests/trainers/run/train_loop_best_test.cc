// Tests where the best epoch's weights are if another member writes the run's files in the end.
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/program.h"
#include "tests/trainers/run/train_loop_fixture.h"
#include "trainers/run/loop/best_weights.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;
using testing::MemberResult;
using testing::ThreadMembership;

class TrainLoopBestTest : public testing::TrainLoopTest {};

/// Another node was to write the best epoch; in the end this folder has its weights too.
TEST_F(TrainLoopBestTest, BestWeightsAreTestedByAnyFinalWriter) {
  nodes_ = validates_ = true;
  options_.schedule.base = 0;  // no later epoch is better
  const auto leave = [](ThreadMembership& self, int64_t steps) {
    if (steps == 8) self.Drain();
  };
  const std::vector<MemberResult> results = TrainAll(2, "nodes", {{0, leave}});
  ExpectComplete(results[1]);
  EXPECT_TRUE(HoldsBest(folder_.path() + "/nodes1", 6));
  const MutexLock lock(mu_);
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].best_epoch, 1);
  EXPECT_EQ(reports_[0].tested_epoch, 1);
}

/// If there is no separate test split, the final weights are tested and the best ones are a file.
TEST_F(TrainLoopBestTest, BestWeightsAreOfTheBestEpochForAnyFinalWriter) {
  nodes_ = true;
  options_.schedule.base = 0;  // no later epoch is better
  const auto leave = [](ThreadMembership& self, int64_t steps) {
    if (steps == 8) self.Drain();
  };
  const std::string folder = folder_.path() + "/nodes1";
  fs::create_directories(folder);
  support::WriteText(absl::StrCat(folder, "/", kBestFile), "another epoch's");
  const std::vector<MemberResult> results = TrainAll(2, "nodes", {{0, leave}});
  ExpectComplete(results[1]);
  EXPECT_TRUE(HoldsBest(folder, 6));
}

TEST_F(TrainLoopBestTest, BestWeightsOfAnotherEpochAreMovedAsideIfTheRightOnesAreMissing) {
  nodes_ = true;
  options_.schedule.base = 0;
  const std::string folder = folder_.path() + "/nodes1";
  const auto leave = [&](ThreadMembership& self, int64_t steps) {
    if (steps != 8) return;
    while (!fs::exists(folder + "/step_6")) std::this_thread::yield();  // its thread may still be writing it
    support::WriteText(absl::StrCat(folder, "/", kBestFile), "another epoch's");
    fs::remove_all(folder + "/step_6");
    self.Drain();
  };
  ExpectComplete(TrainAll(2, "nodes", {{0, leave}})[1]);
  EXPECT_FALSE(fs::exists(absl::StrCat(folder, "/", kBestFile)));
  EXPECT_EQ(support::ReadText(absl::StrCat(folder, "/", kBestFile, ".of_another_epoch")), "another epoch's");
}

}  // namespace
}  // namespace mtrun::trainers
