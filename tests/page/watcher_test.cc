#include "page/watcher.h"

#include <atomic>
#include <future>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/page/states.h"

namespace mtrun::page {
namespace {

using testing::HasSubstr;

TEST(WatcherTest, NobodyIsAskedWhileNobodyLooks) {
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

TEST(WatcherTest, AListenerHearsAgainAndAgainUntilItGoes) {
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
  watcher.AddListener(body);
  EXPECT_EQ(second.get_future().get(), std::vector<std::string>{"b:2"});
  const auto text = body->Take().text;
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("event: state\ndata: {"));
  EXPECT_THAT(*text, HasSubstr("nobody there"));
  body->Detach();
}

}  // namespace
}  // namespace mtrun::page
