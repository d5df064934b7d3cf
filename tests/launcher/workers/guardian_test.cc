#include "launcher/workers/guardian.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/presence_greeting.h"
#include "gtest/gtest.h"
#include "launcher/workers/process_tree.h"
#include "tests/support/hear.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

constexpr support::Seconds kSoon{10};

/// A front -> guardian -> agent chain whose agent starts a tree of processes, some in other sessions.
class GuardianTest : public testing::Test {
 protected:
  void Start(const LeaseAlarm& alarm = LeaseAlarm()) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    auto presence = PresencePort::Open(/*on_loopback=*/true);
    ASSERT_TRUE(presence.ok()) << presence.status();
    port_ = presence->port();
    greeting_ = PresenceGreeting(presence->id());
    front_ = fork();
    ASSERT_GE(front_, 0);
    if (front_ == 0) {
      BecomeGuarded(*presence, alarm);
      const pid_t pids[2] = {getppid(), getpid()};
      setenv(support::Mark::kVariable, mark_.value().c_str(), 1);
      // Only programs executed from here on carry the mark.
      const bool started =
          std::system("setsid sh -c 'sleep 1000 & exec sleep 1000' & (setsid sleep 1000 &) ; sleep 1000 &") ==
          0;
      if (!started || write(pipe_ends[1], pids, sizeof pids) != sizeof pids) _exit(1);
      const sigset_t signals = StopSignals();
      int signal = 0;
      sigwait(&signals, &signal);
      _exit(signal == SIGTERM ? 42 : signal == SIGQUIT ? 0 : 43);
    }
    close(pipe_ends[1]);
    pid_t pids[2];
    ASSERT_EQ(read(pipe_ends[0], pids, sizeof pids), static_cast<ssize_t>(sizeof pids));
    close(pipe_ends[0]);
    guardian_ = pids[0];
    agent_ = pids[1];
    ASSERT_TRUE(mark_.WaitForAlive(4));
  }

  int WaitForFront() {
    int status = 0;
    EXPECT_EQ(waitpid(front_, &status, 0), front_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  /// Waits until the process has ended; its new parent may reap it late.
  bool Ended(pid_t pid) {
    for (int i = 0; i < 1000; ++i) {
      const std::vector<ProcessInfo> processes = ListProcesses();
      const auto lives = [&](const ProcessInfo& process) {
        return process.pid == pid && process.state != 'Z';
      };
      if (std::none_of(processes.begin(), processes.end(), lives)) return true;
      usleep(5000);
    }
    return false;
  }

  /// Returns the guardian's CPU time in seconds.
  double GuardianSeconds() const {
    const std::string stat = support::ReadText(absl::StrCat("/proc/", guardian_, "/stat"));
    const std::vector<std::string> words = absl::StrSplit(stat.substr(stat.find(')') + 2), ' ');
    return (std::stod(words.at(11)) + std::stod(words.at(12))) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

  const support::Mark mark_;
  pid_t front_ = -1, guardian_ = -1, agent_ = -1;
  int port_ = 0;
  std::string greeting_;
};

TEST_F(GuardianTest, SignalsAreForwardedAndTheStatusReturned) {
  Start();
  kill(front_, SIGTERM);
  EXPECT_EQ(WaitForFront(), 42);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));  // the agent's remaining processes are killed, too
}

TEST_F(GuardianTest, ChildrenSurviveASuccess) {
  Start();
  kill(front_, SIGQUIT);
  EXPECT_EQ(WaitForFront(), 0);
  EXPECT_TRUE(Ended(agent_) && Ended(guardian_));
  EXPECT_EQ(mark_.Alive().size(), 4u);
}

TEST_F(GuardianTest, NothingOutlivesAKilledFront) {
  Start();
  kill(front_, SIGKILL);
  EXPECT_EQ(WaitForFront(), 128 + SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
  EXPECT_TRUE(Ended(agent_) && Ended(guardian_));
}

TEST_F(GuardianTest, NothingOutlivesAKilledAgent) {
  Start();
  kill(agent_, SIGKILL);
  EXPECT_EQ(WaitForFront(), 128 + SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
}

TEST_F(GuardianTest, NothingOutlivesAKilledGuardian) {
  Start();
  kill(guardian_, SIGKILL);
  EXPECT_EQ(WaitForFront(), 128 + SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
}

TEST_F(GuardianTest, NothingOutlivesFrontAndAgentKilledTogether) {
  Start();
  kill(front_, SIGKILL);
  kill(agent_, SIGKILL);
  EXPECT_EQ(WaitForFront(), 128 + SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
  EXPECT_TRUE(Ended(guardian_));
}

TEST_F(GuardianTest, StoppedFrontDelaysNothing) {
  Start();
  kill(front_, SIGSTOP);
  kill(agent_, SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
  kill(front_, SIGCONT);
  EXPECT_EQ(WaitForFront(), 128 + SIGKILL);
}

/// The agent is stopped, so only the guardian can. It records first whom it kills.
TEST_F(GuardianTest, WorkersOfAStoppedAgentEndWithTheirLease) {
  const auto alarm = LeaseAlarm::Make();
  ASSERT_TRUE(alarm.ok()) << alarm.status();
  Start(*alarm);
  const std::vector<pid_t> workers = mark_.Alive();
  kill(agent_, SIGSTOP);
  alarm->Set(BootNow());
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
  EXPECT_TRUE(
      std::any_of(workers.begin(), workers.end(), [&](const pid_t pid) { return alarm->kills().Take(pid); }));
  kill(agent_, SIGCONT);
  kill(front_, SIGTERM);
  EXPECT_EQ(WaitForFront(), 42) << "the agent lives";
}

TEST_F(GuardianTest, GuardianGreetsForAStoppedAgent) {
  Start();
  kill(agent_, SIGSTOP);
  EXPECT_EQ(support::HearAt(port_), greeting_);
  EXPECT_EQ(support::HearAt(port_), greeting_);
  kill(front_, SIGKILL);
  EXPECT_EQ(WaitForFront(), 128 + SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
}

TEST_F(GuardianTest, PortIsRefusedAfterTheLastProcess) {
  Start();
  // Both at once, with no process left to kill their children.
  for (const pid_t pid : {front_, guardian_, agent_}) kill(pid, SIGSTOP);
  for (const pid_t pid : {guardian_, agent_}) kill(pid, SIGKILL);
  EXPECT_EQ(support::HearAt(port_, support::Seconds(0.2)), "silent");
  EXPECT_FALSE(mark_.Alive().empty());
  kill(front_, SIGCONT);
  while (support::HearAt(port_, support::Seconds(0.2)) != "refused") {
  }
  EXPECT_TRUE(mark_.Alive().empty());
  EXPECT_EQ(WaitForFront(), 128 + SIGKILL);
}

TEST_F(GuardianTest, ManyCallersDelayNoSignal) {
  Start();
  std::atomic<bool> over = false;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      while (!over) support::HearAt(port_, kSoon);
    });
  }
  EXPECT_EQ(support::HearAt(port_), greeting_);
  kill(front_, SIGTERM);
  EXPECT_EQ(WaitForFront(), 42);
  over = true;
  for (std::thread& caller : callers) caller.join();
}

TEST_F(GuardianTest, WaitsWithoutSpinningIfOutOfDescriptors) {
  Start();
  rlimit before = {};
  ASSERT_EQ(prlimit(guardian_, RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit none = {3, before.rlim_max};  // poll(2) accepts two nevertheless
  ASSERT_EQ(prlimit(guardian_, RLIMIT_NOFILE, &none, nullptr), 0);
  const double used = GuardianSeconds();
  EXPECT_EQ(support::HearAt(port_, support::Seconds(0.6)), "silent");
  EXPECT_LT(GuardianSeconds() - used, 0.2);
  ASSERT_EQ(prlimit(guardian_, RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_EQ(support::HearAt(port_), greeting_);
  kill(front_, SIGTERM);
  EXPECT_EQ(WaitForFront(), 42);
}

}  // namespace
}  // namespace mtrun::launcher
