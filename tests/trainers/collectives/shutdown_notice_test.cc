#include "trainers/collectives/shutdown_notice.h"

#include <gtest/gtest.h>

namespace mtrun::collectives {
namespace {

TEST(ShutdownNoticeTest, RoundTripsAndWaitsForTheWholeMessage) {
  EXPECT_TRUE(DecodeShutdownNotice(Encode(ShutdownNotice{}))->graceful);
  const std::string bytes = Encode(ShutdownNotice{.graceful = false, .why = "rank 2 died"});
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(DecodeShutdownNotice(bytes.substr(0, size)).has_value()) << size;
  const auto notice = DecodeShutdownNotice(bytes);
  ASSERT_TRUE(notice.has_value());
  EXPECT_FALSE(notice->graceful);
  EXPECT_EQ(notice->why, "rank 2 died");
}

TEST(ShutdownNoticeTest, MalformedNoticeIsAFailureAtOnce) {
  for (const std::string bytes : {"HEAD / HTTP/1.1", "x", "A\xff\xff"}) {
    const auto notice = DecodeShutdownNotice(bytes);
    ASSERT_TRUE(notice.has_value()) << bytes;
    EXPECT_FALSE(notice->graceful);
  }
}

TEST(ShutdownNoticeTest, LongReasonsAreTruncated) {
  const auto notice =
      DecodeShutdownNotice(Encode(ShutdownNotice{.graceful = false, .why = std::string(5000, 'x')}));
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->why, std::string(1000, 'x'));
}

}  // namespace
}  // namespace mtrun::collectives
