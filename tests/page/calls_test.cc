#include "page/calls.h"

#include <atomic>
#include <future>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/silent_server.h"
#include "tests/support/status.h"

namespace mtrun::page {
namespace {

using testing::HasSubstr;

TEST(CallsTest, LogRequestIsParsedFromTheQuery) {
  const auto question = ReadLogQuestion("job=a%20b&rank=3&attempt=%2Fx&out=10&err=-1");
  ASSERT_TRUE(question.ok()) << question.status();
  EXPECT_EQ(question->job_id, "a b");
  EXPECT_EQ(question->read, (rendezvous::LogRequest{0, 3, "/x", 10, -1, question->read.by}));
  EXPECT_THAT(question->read.by.user, HasSubstr("the page's viewer as "));
  for (const char* bad : {"", "rank=", "rank=-1", "rank=x", "rank=1&out=-2", "rank=99999999999", "rank=%"})
    EXPECT_TRUE(absl::IsInvalidArgument(ReadLogQuestion(bad).status())) << bad;
}

TEST(CallsTest, ControlRequestIsParsedFromTheBody) {
  const auto stop = ReadControlQuestion(rendezvous::StopCall(), R"({"job": "a", "checkpoint": true})");
  ASSERT_TRUE(stop.ok()) << stop.status();
  EXPECT_EQ(stop->job_id, "a");
  EXPECT_TRUE(std::get<rendezvous::StopCall>(stop->what).checkpoint);
  EXPECT_THAT(stop->by.user, HasSubstr("the page's operator"));
  const auto drain = ReadControlQuestion(rendezvous::DrainCall(), R"({"node": "n1"})");
  EXPECT_EQ(std::get<rendezvous::DrainCall>(drain->what).node, "n1");
  const std::pair<const char*, const char*> bad[] = {
      {"", "not valid JSON at byte 1"},        {"[]", "not a JSON object"},
      {"{", "not valid JSON at byte 2"},       {R"({"node": 1})", "\"node\" is not taken"},
      {R"({"x": "y"})", "\"x\" is not taken"}, {R"({"job": "a"})", "node is missing"}};
  for (const auto& [body, why] : bad) {
    EXPECT_THAT(ReadControlQuestion(rendezvous::DrainCall(), body),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  }
  EXPECT_THAT(
      ReadControlQuestion(rendezvous::StopCall(), std::string(5000, ' ') + "{}"),
      support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("longer than 4096 bytes, the limit")));
}

TEST(CallsTest, LogRequestsDoNotDelayControlCalls) {
  const support::SilentServer silent;
  Calls calls({.insecure = true});
  std::atomic<int> read = 0;
  const auto count = [&read](const web::Response&) { ++read; };
  for (int i = 0; i < 4; ++i) calls.ReadLog({silent.endpoint()}, "job=a&rank=0", count);
  std::promise<int> status;
  const TimePoint asked = MonotonicNow();
  // It is refused at once, because there is no listener.
  calls.Control({"127.0.0.1:1"}, rendezvous::StopCall(), R"({"job": "a"})",
                [&](const web::Response& response) { status.set_value(response.status); });
  EXPECT_EQ(status.get_future().get(), 409);
  EXPECT_LT(MonotonicNow() - asked, std::chrono::seconds(4)) << "the logs take 5 s each";
  EXPECT_EQ(read, 0);
}

}  // namespace
}  // namespace mtrun::page
