#include "launcher/observe/file_timer.h"

#include <fcntl.h>

#include <asio.hpp>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/observe/monitors.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string Request(int pid, const std::string& scope, double expires, int signal) {
  return absl::StrCat(R"({"version": 1, "pid": )", pid, R"(, "scope_id": ")", scope,
                      R"(", "expiration_time": )", expires, R"(, "signal": )", signal, "}");
}

TEST(FileTimersTest, TimersExpireUnlessReleased) {
  FileTimers timers;
  EXPECT_FALSE(timers.Next());
  ASSERT_TRUE(timers.Take(Request(7, "a", 100, 9)).ok());
  ASSERT_TRUE(timers.Take(Request(8, "a", 90, 9)).ok());
  EXPECT_EQ(timers.Next(), 90);
  EXPECT_THAT(timers.Expire(89), IsEmpty());
  ASSERT_TRUE(timers.Take(Request(8, "a", -1, 0)).ok());
  EXPECT_THAT(timers.Expire(99), IsEmpty());
  EXPECT_THAT(timers.Expire(100), ElementsAre(FileTimers::Expired{7, 9, "a"}));
  EXPECT_FALSE(timers.Next());
}

TEST(FileTimersTest, WorkerGetsTheFirstValidSignalOnly) {
  FileTimers timers;
  ASSERT_TRUE(timers.Take(Request(7, "late", 20, 9)).ok());
  ASSERT_TRUE(timers.Take(Request(7, "silent", 5, 0)).ok());
  ASSERT_TRUE(timers.Take(Request(7, "early", 10, 15)).ok());
  ASSERT_TRUE(timers.Take(Request(7, "future", 1000, 9)).ok());
  EXPECT_THAT(timers.Expire(50), ElementsAre(FileTimers::Expired{7, 15, "early"}));
  EXPECT_FALSE(timers.Next());  // all timers of the worker are removed
}

TEST(FileTimersTest, NewDeadlineReplacesTheOld) {
  FileTimers timers;
  ASSERT_TRUE(timers.Take(Request(7, "a", 10, 9)).ok());
  ASSERT_TRUE(timers.Take(Request(7, "a", 20, 9)).ok());
  EXPECT_THAT(timers.Expire(15), IsEmpty());
}

TEST(FileTimersTest, NonsenseIsRefused) {
  FileTimers timers;
  for (const char* line : {"", "x", "{}", R"({"pid":"7","scope_id":"a","expiration_time":1,"signal":9})",
                           R"({"pid":7e300,"scope_id":"a","expiration_time":1,"signal":9})",
                           R"({"pid":7,"scope_id":"a","expiration_time":1,"signal":4294967305})"})
    EXPECT_FALSE(timers.Take(line).ok()) << line;
}

TEST(FileTimerServerTest, ReportsAnExpiredTimer) {
  asio::io_context io;
  std::vector<FileTimers::Expired> seen;
  auto server = FileTimerServer::Start(io, "", [&](const FileTimers::Expired& expired) {
    seen.push_back(expired);
    io.stop();
  });
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string path = (*server)->path();
  const UniqueFd client(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(client.valid());
  ASSERT_TRUE(WriteAll(client.get(), absl::StrCat("nonsense\n", Request(7, "a", 1, 9), "\n")).ok());
  io.run_for(std::chrono::seconds(60));
  EXPECT_THAT(seen, ElementsAre(FileTimers::Expired{7, 9, "a"}));
  server->reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

/// The pipe belongs to the outer job's workers: an mtrun in one of them would take it over.
TEST(FileTimerServerTest, PipeOfAnOuterJobIsNotTouched) {
  asio::io_context io;
  auto outer = FileTimerServer::Start(io, "", {});
  ASSERT_TRUE(outer.ok()) << outer.status();
  const std::string path = (*outer)->path();
  EnvironmentMap environment = {
      {"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}, {"TORCHELASTIC_TIMER_FILE", path}, {"MTRUN_SOCKET", "@outer"}};
  {
    const auto inner = StartWatching(io, environment, "", "none", {});
    ASSERT_TRUE(inner.ok()) << inner.status();
    EXPECT_NE(inner->timer_file(), "");
    EXPECT_NE(inner->timer_file(), path);
  }
  EXPECT_TRUE(std::filesystem::exists(path));
  environment.erase("MTRUN_SOCKET");
  EXPECT_EQ(StartWatching(io, environment, "", "none", {})->timer_file(), path) << "its user names it";
}

TEST(FileTimerServerTest, ExistingFileIsAnError) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("timer"), "mine");
  asio::io_context io;
  const auto server = FileTimerServer::Start(io, folder.File("timer"), {});
  EXPECT_THAT(std::string(server.status().message()), testing::HasSubstr(folder.File("timer")));
  EXPECT_EQ(support::ReadText(folder.File("timer")), "mine");
}

}  // namespace
}  // namespace mtrun::launcher
