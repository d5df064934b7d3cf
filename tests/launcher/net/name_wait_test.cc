#include "launcher/net/name_wait.h"

#include <gmock/gmock.h>

namespace mtrun::launcher {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(NameWait, ReportsEveryHalfMinuteAndEnds) {
  const TimePoint start{std::chrono::hours(1)};
  const absl::Status unknown = absl::NotFoundError("the host node9 is not known");
  NameWait wait(seconds(60), start);
  int said = 0;
  for (int i = 0; i < 60; ++i) {
    const auto news = wait.OnFailure(unknown, start + seconds(i));
    ASSERT_TRUE(news.ok()) << i;
    said += news->empty() ? 0 : 1;
    if (i == 0) {
      EXPECT_THAT(*news, HasSubstr("trying again for 1 min 00 s"));
    }
  }
  EXPECT_EQ(said, 2);
  const auto over = wait.OnFailure(unknown, start + seconds(60));
  EXPECT_EQ(over.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(over.status().message()),
              HasSubstr("node9 is not known, for 1 min 00 s (--rdzv_conf "));
}

}  // namespace
}  // namespace mtrun::launcher
