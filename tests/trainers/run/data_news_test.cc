#include "trainers/run/arrival/data_news.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::trainers {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using Wait = datasets::SetClient::Wait;

class DataNewsTest : public ::testing::Test {
 protected:
  std::string At(int second, Wait wait) { return news_.Line(wait, TimePoint() + seconds(second)); }
  std::string Trouble(int second, std::string text) { return At(second, {.trouble = std::move(text)}); }

  DataNews news_{"https://host/set"};
};

TEST_F(DataNewsTest, ShortWaitsAreSilentAndLongOnesReportedEveryMinute) {
  EXPECT_EQ(At(1, {.waited = seconds(1), .files = 1, .of = 3}), "");
  EXPECT_EQ(At(3, {.waited = seconds(3), .files = 1, .of = 3}),
            "waiting for data from https://host/set: 1 of 3 shards fetched");
  EXPECT_EQ(At(62, {.waited = seconds(62), .files = 1, .of = 3}), "");
  EXPECT_NE(At(63, {.waited = seconds(63), .files = 1, .of = 3}), "");
}

TEST_F(DataNewsTest, ProblemIsReportedAtOnceAndThenOnceAMinute) {
  EXPECT_EQ(Trouble(0, "the server is away"),
            "the run is waiting for its data, nothing is lost: the server is away");
  EXPECT_EQ(Trouble(59, "the server is away"), "");
  EXPECT_NE(Trouble(60, "the server is away"), "");
}

TEST_F(DataNewsTest, AnotherKindOfProblemIsReportedAtOnce) {
  EXPECT_NE(Trouble(0, "the server is away"), "");
  EXPECT_THAT(Trouble(1, "No space left on device"), HasSubstr("No space left"));
  EXPECT_EQ(Trouble(2, "the server is away"), "") << "two that alternate";
  EXPECT_EQ(Trouble(3, "No space left on device"), "");
}

TEST_F(DataNewsTest, ManyFilesWithOneProblemGiveOneLine) {
  EXPECT_NE(Trouble(0, "shard_00001: connection refused after 3 ms"), "");
  EXPECT_EQ(Trouble(1, "shard_00002: connection refused after 14 ms"), "");
}

}  // namespace
}  // namespace mtrun::trainers
