#include "base/clock.h"

#include <gtest/gtest.h>

#include <regex>

namespace mtrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Clock, SecondsRoundTripWithFractions) {
  EXPECT_EQ(FromSeconds(0.25), milliseconds(250));
  EXPECT_DOUBLE_EQ(ToSeconds(milliseconds(1500)), 1.5);
}

TEST(Clock, MonotonicNeverGoesBack) {
  const TimePoint first = MonotonicNow();
  EXPECT_LE(first, MonotonicNow());
}

TEST(Clock, WallClockTextIsIso8601InUtc) {
  EXPECT_TRUE(std::regex_match(WallClockText(), std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")));
}

TEST(Clock, HumanDurationPicksItsUnit) {
  EXPECT_EQ(HumanDuration(milliseconds(850)), "850 ms");
  EXPECT_EQ(HumanDuration(milliseconds(12340)), "12.3 s");
  EXPECT_EQ(HumanDuration(seconds(245)), "4 min 05 s");
  EXPECT_EQ(HumanDuration(seconds(7380)), "2 h 03 min");
}

}  // namespace
}  // namespace mtrun
