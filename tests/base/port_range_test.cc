#include "base/port_range.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun {
namespace {

using ::testing::HasSubstr;

TEST(PortRange, RoundTrips) {
  for (const PortRange range :
       {PortRange{}, PortRange{29500, 29600}, PortRange{1, 65535}, PortRange{80, 80}}) {
    const auto read = ParsePortRange(ToText(range));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, range);
  }
  EXPECT_TRUE(ParsePortRange("")->any());
}

TEST(PortRange, OtherTextsAreRefused) {
  for (const char* text :
       {"0-10", "10-", "-10", "20-10", "a-b", "1-65536", "1-2-3", " ", "29500 - 29600x", "-"}) {
    EXPECT_THAT(ParsePortRange(text).status().message(), HasSubstr("LOW-HIGH")) << text;
  }
}

TEST(PortRange, EveryPortIsTriedOnceUntilOneIsFree) {
  const PortRange range{10, 13};
  for (uint64_t random = 0; random < 9; ++random) {
    std::vector<int> tried;
    const auto opened = OpenWithin(range, random, [&](int port) -> absl::StatusOr<int> {
      tried.push_back(port);
      if (port != 12) return absl::AlreadyExistsError("in use");
      return port;
    });
    EXPECT_EQ(opened.value(), 12);
    EXPECT_EQ(std::set<int>(tried.begin(), tried.end()).size(), tried.size());
  }
  const auto none =
      OpenWithin(range, 3, [](int) -> absl::StatusOr<int> { return absl::AlreadyExistsError("in use"); });
  EXPECT_TRUE(absl::IsAlreadyExists(none.status()));
  EXPECT_THAT(none.status().message(), HasSubstr("10-13 (--port_range) is free: in use"));
  EXPECT_EQ(OpenWithin(PortRange{}, 3, [](int port) -> absl::StatusOr<int> { return port; }).value(), 0);
}

}  // namespace
}  // namespace mtrun
