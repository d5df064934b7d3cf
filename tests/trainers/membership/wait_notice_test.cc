#include "trainers/membership/wait_notice.h"

#include <future>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

TEST(WaitNotice, TellsOnceTheDelayIsOver) {
  std::promise<void> told;
  const WaitNotice notice([&] { told.set_value(); }, std::chrono::milliseconds(1));
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST(WaitNotice, SaysNothingOfAShortWait) {
  bool told = false;
  {
    const WaitNotice notice([&] { told = true; }, std::chrono::hours(1));
  }
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace mtrun::trainers
