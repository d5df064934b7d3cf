#include "trainers/run/records/worker_times.h"

#include <chrono>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::trainers {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

/// Adds steps of all workers for `for_seconds` seconds and returns the last record.
WorkersRecord Pass(WorkerTimes& times, const std::vector<double>& busy, int for_seconds, TimePoint& now) {
  WorkersRecord last;
  for (int second = 0; second < for_seconds; ++second) {
    std::vector<StepTimes> step;
    for (const double own : busy) step.push_back({.compute = own, .wait = 1 - own, .data = 0});
    times.Add(step);
    now += seconds(1);
    if (auto record = times.Take(0, now)) last = *record;
  }
  return last;
}

class WorkerTimesTest : public testing::Test {
 protected:
  WorkerTimes times_;
  TimePoint now_{};
};

TEST_F(WorkerTimesTest, RecordsMeansEveryTenSeconds) {
  times_.Restart({1, 1}, now_);
  times_.Add({{.compute = 0.25, .wait = 0.5, .data = 0}, {.compute = 0.5, .wait = 0, .data = 0.25}});
  times_.Add({{.compute = 0.75, .wait = 0.5, .data = 0}, {.compute = 0.5, .wait = 0, .data = 0.75}});
  EXPECT_FALSE(times_.Take(2, now_ + seconds(9)));
  const auto record = times_.Take(2, now_ + seconds(10));
  ASSERT_TRUE(record);
  EXPECT_EQ(record->steps, 2);
  EXPECT_EQ(record->times, (std::vector<StepTimes>{{0.5, 0.5, 0}, {0.5, 0, 0.5}}));
  EXPECT_FALSE(times_.Take(2, now_ + seconds(30)));  // no new step
}

TEST_F(WorkerTimesTest, NamesTheSlowestAfterAMinute) {
  times_.Restart({2, 2, 2, 2}, now_);
  Pass(times_, {0.5, 0.5, 0.7, 0.5}, 59, now_);
  EXPECT_FALSE(times_.straggler());
  const WorkersRecord record = Pass(times_, {0.5, 0.5, 0.7, 0.5}, 1, now_);
  ASSERT_TRUE(times_.straggler());
  EXPECT_EQ(times_.straggler()->rank, 2);
  EXPECT_EQ(record.straggler, 2);
  EXPECT_THAT(Describe(*times_.straggler(), record, "node2"),
              HasSubstr("rank 2 on node2 is slow: 1.40 times"));
  Pass(times_, {0.5, 0.5, 0.5, 0.5}, 10, now_);
  EXPECT_FALSE(times_.straggler());
}

TEST_F(WorkerTimesTest, ShortPauseRestartsTheMinute) {
  times_.Restart({1, 1, 1}, now_);
  Pass(times_, {0.9, 0.3, 0.3}, 50, now_);
  Pass(times_, {0.3, 0.3, 0.3}, 10, now_);
  Pass(times_, {0.9, 0.3, 0.3}, 50, now_);
  EXPECT_FALSE(times_.straggler());
  Pass(times_, {0.9, 0.3, 0.3}, 10, now_);
  EXPECT_TRUE(times_.straggler());
}

TEST_F(WorkerTimesTest, WorkerWithMoreWorkIsNotSlow) {
  times_.Restart({2, 1, 1, 0}, now_);  // four micro-batches on four workers, unevenly divided
  Pass(times_, {0.8, 0.4, 0.4, 0.0}, 120, now_);
  EXPECT_FALSE(times_.straggler());
}

TEST_F(WorkerTimesTest, OneOfTwoIsComparedWithTheOther) {
  times_.Restart({1, 1}, now_);
  Pass(times_, {0.5, 0.66}, 60, now_);
  ASSERT_TRUE(times_.straggler());
  EXPECT_EQ(times_.straggler()->rank, 1);
}

TEST_F(WorkerTimesTest, GenerationStartsFromZero) {
  times_.Restart({1, 1, 1}, now_);
  Pass(times_, {0.9, 0.3, 0.3}, 60, now_);
  times_.Restart({1, 1}, now_);
  EXPECT_FALSE(times_.straggler());
  times_.Add({{}, {}});                                // its first step has no previous one to report
  times_.Add({{.compute = 1, .wait = 0, .data = 0}});  // and a step of another world size does not count
  EXPECT_FALSE(times_.Take(1, now_ + seconds(20)));
}

}  // namespace
}  // namespace mtrun::trainers
