#include "rendezvous/service/log_calls.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;

class LogCallsTest : public ::testing::Test {
 protected:
  std::optional<int64_t> Add(const std::string& node = "node1-1") {
    return calls_.Add(node, "node1", [this](const LogPart& part) {
      answers_.push_back(part.error.empty() ? part.out : part.error);
    });
  }

  asio::io_context loop_;
  LogCalls calls_{loop_};
  std::vector<std::string> answers_;
};

TEST_F(LogCallsTest, OnlyTheRequestedNodeAnswersAndOnlyOnce) {
  const auto id = Add();
  ASSERT_TRUE(id.has_value());
  calls_.OnAnswer("node2-2", LogPart{.id = *id, .out = "forged"});
  calls_.OnAnswer("node1-1", LogPart{.id = *id + 1, .out = "another"});
  calls_.OnAnswer("node1-1", LogPart{.id = *id, .out = "text"});
  calls_.OnAnswer("node1-1", LogPart{.id = *id, .out = "again"});
  EXPECT_THAT(answers_, ElementsAre("text"));
}

TEST_F(LogCallsTest, CallsBeyondTheLimitAreRefused) {
  for (size_t i = 0; i < LogCalls::kMost; ++i) EXPECT_TRUE(Add().has_value());
  EXPECT_FALSE(Add().has_value());
}

TEST_F(LogCallsTest, CloseAnswersAllCalls) {
  Add();
  calls_.Close();
  EXPECT_THAT(answers_, ElementsAre("the service ends"));
  EXPECT_FALSE(Add().has_value());
}

}  // namespace
}  // namespace mtrun::rendezvous
