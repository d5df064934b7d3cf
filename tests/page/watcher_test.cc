#include "page/watcher.h"

#include <atomic>
#include <future>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/page/states.h"

namespace mtrun::page {
namespace {

using testing::HasSubstr;

TEST(WatcherTest, ServicesAreNotPolledWithoutListeners) {
  std::atomic<int> asked = 0;
  Watcher watcher(
      [&](const auto&) {
        ++asked;
        return AState(1, asked);
      },
      {"a:1"});
  EXPECT_EQ(asked, 0);
  std::promise<nlohmann::json> told;
  watcher.Look([&](const nlohmann::json& state) { told.set_value(state); });
  EXPECT_EQ(told.get_future().get()["jobs"][0]["job"], "job");
  EXPECT_EQ(asked, 1);
}

TEST(WatcherTest, WaitingProbesAreLimitedAndAnswersAreReused) {
  std::atomic<int> asked = 0;
  std::promise<void> answered;
  const std::shared_future<void> answer(answered.get_future());
  Watcher watcher(
      [&](const auto&) {
        ++asked;
        answer.wait();
        return AState(1, 1);
      },
      {"a:1"}, /*fresh=*/std::chrono::hours(1));
  std::atomic<size_t> told = 0;
  std::promise<void> all;
  const auto count = [&](bool answers) {
    EXPECT_TRUE(answers);
    if (++told == Watcher::kMaxProbes) all.set_value();
  };
  for (size_t i = 0; i < Watcher::kMaxProbes; ++i) EXPECT_TRUE(watcher.Probe(count)) << i;
  EXPECT_FALSE(watcher.Probe(count)) << "one more would wait";
  answered.set_value();
  all.get_future().wait();
  const int before = asked;
  EXPECT_TRUE(watcher.Probe(count));
  EXPECT_EQ(told, Watcher::kMaxProbes + 1) << "told at once";
  EXPECT_EQ(asked, before);
}

TEST(WatcherTest, ListenerGetsUpdatesUntilItLeaves) {
  std::promise<std::vector<std::string>> second;
  std::atomic<int> asked = 0;
  Watcher watcher(
      [&](const std::vector<std::string>& endpoints) -> absl::StatusOr<rendezvous::WatchedState> {
        if (++asked == 2) second.set_value(endpoints);
        return absl::UnavailableError("nobody there");
      },
      {"a:1"});
  watcher.SetEndpoints({"b:2"});
  const auto body = std::make_shared<web::LiveBody>();
  watcher.AddListener(body, nullptr);
  EXPECT_EQ(second.get_future().get(), std::vector<std::string>{"b:2"});
  const auto text = body->Take().text;
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("event: state\ndata: {"));
  EXPECT_THAT(*text, HasSubstr("nobody there"));
  body->Detach();
}

TEST(WatcherTest, ListenerEndsWithItsSession) {
  Watcher watcher([](const auto&) { return AState(1, 1); }, {"a:1"});
  const auto kept = std::make_shared<web::LiveBody>(), ended = std::make_shared<web::LiveBody>();
  const auto session = std::make_shared<Session>(Role::kViewer, MonotonicNow() + std::chrono::hours(1));
  watcher.AddListener(kept, std::make_shared<Session>(Role::kViewer, session->ends()));
  watcher.AddListener(ended, session);
  while (!ended->Take().text) std::this_thread::yield();  // bounded by the test's time limit
  session->End();
  watcher.EndListeners();
  while (!ended->Take().ended) std::this_thread::yield();
  kept->Take();
  while (!kept->Take().text) std::this_thread::yield();
  for (const auto& body : {kept, ended}) body->Detach();
}

TEST(WatcherTest, ListenerEndsWhenItsSessionExpires) {
  Watcher watcher([](const auto&) { return AState(1, 1); }, {"a:1"});
  const auto body = std::make_shared<web::LiveBody>();
  watcher.AddListener(body, std::make_shared<Session>(Role::kViewer, MonotonicNow() + Duration(1)));
  while (!body->Take().ended) std::this_thread::yield();  // bounded by the test's time limit
  body->Detach();
}

}  // namespace
}  // namespace mtrun::page
