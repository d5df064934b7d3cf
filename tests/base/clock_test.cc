#include "base/clock.h"

#include <gtest/gtest.h>

#include <cctype>
#include <limits>
#include <string>

namespace mtrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Clock, SecondsRoundTripWithFractions) {
  EXPECT_EQ(FromSeconds(0.25), milliseconds(250));
  EXPECT_DOUBLE_EQ(ToSeconds(milliseconds(1500)), 1.5);
}

TEST(Clock, SecondsAreClampedToTheDurationRange) {
  EXPECT_EQ(FromSeconds(1e8), seconds(100'000'000));
  EXPECT_EQ(FromSeconds(std::numeric_limits<double>::quiet_NaN()), Duration::zero());
  for (const double much : {9.3e9, 1e10, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(FromSeconds(much), Duration::max()) << much;
    EXPECT_EQ(FromSeconds(-much), Duration::min()) << much;
  }
}

TEST(Clock, MonotonicNeverGoesBack) {
  const TimePoint first = MonotonicNow();
  EXPECT_LE(first, MonotonicNow());
}

TEST(Clock, TimeSinceBootCountsSuspensionToo) {
  const Duration awake = MonotonicNow().time_since_epoch();
  const Duration first = BootNow();
  EXPECT_LE(awake, first);
  EXPECT_LE(first, BootNow());
}

TEST(Clock, EarlierOfTwoOptionalTimes) {
  const TimePoint first(seconds(1)), second(seconds(2));
  EXPECT_EQ(Earlier(first, second), first);
  EXPECT_EQ(Earlier(second, first), first);
  EXPECT_EQ(Earlier(first, std::nullopt), first);
  EXPECT_EQ(Earlier(std::nullopt, second), second);
  EXPECT_EQ(Earlier(std::nullopt, std::nullopt), std::nullopt);
}

TEST(Clock, WallClockTextIsIso8601InUtc) {
  std::string shape = WallClockText();
  for (char& c : shape) c = std::isdigit(static_cast<unsigned char>(c)) != 0 ? '0' : c;
  EXPECT_EQ(shape, "0000-00-00T00:00:00.000Z");
}

TEST(Clock, WallClockTextCanBeOfAGivenTime) {
  EXPECT_EQ(WallClockText(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(WallClockText(1'764'000'000'123'999'999), "2025-11-24T16:00:00.123Z") << "cut, not rounded";
}

TEST(Clock, HumanDurationChoosesItsUnit) {
  EXPECT_EQ(HumanDuration(milliseconds(850)), "850 ms");
  EXPECT_EQ(HumanDuration(milliseconds(12340)), "12.3 s");
  EXPECT_EQ(HumanDuration(seconds(245)), "4 min 05 s");
  EXPECT_EQ(HumanDuration(seconds(7380)), "2 h 03 min");
}

}  // namespace
}  // namespace mtrun
