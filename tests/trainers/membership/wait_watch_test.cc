#include "trainers/membership/wait_watch.h"

#include <atomic>
#include <future>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

constexpr std::chrono::seconds kFar{30};

TEST(WaitWatch, EndsTheWaitOfADrainingWorker) {
  std::promise<void> ended;
  std::atomic<bool> wants{false}, asked{false};
  const WaitWatch watch(
      [&] {
        asked = true;
        asked.notify_all();
        return wants.load();
      },
      [&] { ended.set_value(); }, Duration::zero());
  asked.wait(false);
  std::future<void> end = ended.get_future();
  EXPECT_EQ(end.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  wants = true;
  EXPECT_EQ(end.wait_for(kFar), std::future_status::ready);
}

TEST(WaitWatch, WaitThatSucceedsInTimeIsLeftAlone) {
  std::atomic<int> ended{0};
  {
    std::promise<void> asked;
    std::atomic<int> times{0};
    const WaitWatch watch(
        [&] {
          if (times++ == 0) asked.set_value();
          return true;
        },
        [&] { ++ended; }, kFar);
    asked.get_future().wait();
  }
  EXPECT_EQ(ended, 0);
}

TEST(WaitWatch, GivesUpOnce) {
  std::atomic<int> ended{0};
  {
    const WaitWatch watch([] { return true; },
                          [&] {
                            ++ended;
                            ended.notify_all();
                          },
                          Duration::zero());
    ended.wait(0);
  }
  EXPECT_EQ(ended, 1);
}

TEST(WaitWatch, TellsOnceTheDelayIsOver) {
  std::promise<void> told;
  const WaitWatch notice([] { return true; }, [&] { told.set_value(); }, std::chrono::milliseconds(1));
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST(WaitWatch, SaysNothingOfAShortWait) {
  bool told = false;
  {
    const WaitWatch notice([] { return true; }, [&] { told = true; }, std::chrono::hours(1));
  }
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace mtrun::trainers
