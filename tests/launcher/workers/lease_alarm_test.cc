#include "launcher/workers/lease_alarm.h"

#include <poll.h>

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

bool RingsWithin(const LeaseAlarm& alarm, int milliseconds) {
  pollfd ready = {alarm.fd(), POLLIN, 0};
  return poll(&ready, 1, milliseconds) == 1;
}

TEST(LeaseAlarm, RingsOnceAtItsTimeUnlessPostponed) {
  const auto alarm = LeaseAlarm::Make();
  ASSERT_TRUE(alarm.ok()) << alarm.status();
  EXPECT_FALSE(RingsWithin(*alarm, 0));
  alarm->Set(BootNow());
  ASSERT_TRUE(RingsWithin(*alarm, 10'000));
  EXPECT_TRUE(alarm->TakeRing());
  EXPECT_FALSE(alarm->TakeRing());
  alarm->Set(BootNow());
  ASSERT_TRUE(RingsWithin(*alarm, 10'000));
  alarm->Set(BootNow() + std::chrono::hours(1));
  EXPECT_FALSE(RingsWithin(*alarm, 0)) << "the lease was renewed before anybody looked";
  alarm->Set(Duration::zero());
  EXPECT_TRUE(RingsWithin(*alarm, 10'000)) << "long past";
  alarm->Set(std::nullopt);
  EXPECT_FALSE(RingsWithin(*alarm, 0));
}

TEST(LeaseAlarm, EmptyOneNeverRings) {
  const LeaseAlarm none;
  none.Set(BootNow());
  EXPECT_EQ(none.fd(), -1);
  EXPECT_FALSE(none.TakeRing());
}

}  // namespace
}  // namespace mtrun::launcher
