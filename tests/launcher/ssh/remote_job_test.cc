// Scripts of RemoteJob (testdata/*.txt), and random walks that check its invariants.
#include "launcher/ssh/remote_job.h"

#include <signal.h>

#include <map>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/signal_name.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/golden_script.h"

namespace mtrun::launcher {
namespace {

using Kind = RemoteEffect::Kind;

std::string Text(const RemoteEffect& effect, const std::vector<std::string>& hosts) {
  const std::string& host = hosts[effect.host];
  switch (effect.kind) {
    case Kind::kConnect:
      return "connect " + host;
    case Kind::kLaunch:
      return absl::StrCat("launch ", host, " at ", effect.text);
    case Kind::kSignal:
      return absl::StrCat(SignalName(effect.number), " to ", host);
    case Kind::kDisconnect:
      return "disconnect " + host;
    case Kind::kInform:
      return "say: " + effect.text;
    case Kind::kWarn:
      return "warn: " + effect.text;
    case Kind::kFail:
      return "fail: " + effect.text;
    case Kind::kExit:
      return absl::StrCat("exit ", effect.number);
  }
  return "";
}

/// Plays a script. Commands: "job HOST... least=N", then "greets HOST", "ended HOST status=N", "lost HOST
/// why=...", "signal N [forward]", "time"; each with at=SECONDS.
class Player {
 public:
  std::vector<std::string> Run(const std::string& line) {
    const support::ScriptCommand command(line);
    if (command.Has("at")) now_ = TimePoint() + std::chrono::seconds(command.Int("at", 0));
    std::vector<std::string> trace;
    for (const RemoteEffect& effect : Perform(command)) trace.push_back(Text(effect, hosts_));
    const auto next = job_->next_time();
    if (next) trace.push_back(absl::StrCat("until ", (*next - TimePoint()) / std::chrono::seconds(1), " s"));
    trace.push_back("= " + job_->Describe());
    return trace;
  }

 private:
  RemoteJob::Effects Perform(const support::ScriptCommand& command) {
    if (command.name == "job") {
      hosts_ = command.words;
      job_ = std::make_unique<RemoteJob>(RemoteJob::Config{
          .hosts = hosts_,
          .least = static_cast<size_t>(command.Int("least", static_cast<int>(hosts_.size()))),
          .version = "1.0",
          .stop_patience = std::chrono::seconds(50)});
      return job_->Start(now_);
    }
    if (command.name == "signal")
      return job_->OnSignal(command.Int("number", SIGINT), !command.Has("forward"), now_);
    if (command.name == "time") return job_->OnTime(now_);
    const auto found = std::find(hosts_.begin(), hosts_.end(), command.words.at(0));
    const auto host = static_cast<size_t>(found - hosts_.begin());
    if (command.name == "greets") {
      return job_->OnGreeting(host,
                              {command.Text("version", "1.0"), *found + ".example",
                               command.Text("address", absl::StrCat("10.0.0.", host + 1))},
                              now_);
    }
    if (command.name == "ended") return job_->OnEnded(host, command.Int("status", 0), now_);
    EXPECT_EQ(command.name, "lost");
    return job_->OnLost(host, absl::StrReplaceAll(command.Text("why", "no_route"), {{"_", " "}}), now_);
  }

  TimePoint now_;
  std::vector<std::string> hosts_;
  std::unique_ptr<RemoteJob> job_;
};

TEST(RemoteJobTest, Scripts) {
  support::ExpectScripts("tests/launcher/ssh/testdata", "remote_job_", 6, [](const std::string& script) {
    Player player;
    return support::ReplayTraces(script, [&](const std::string& line) { return player.Run(line); });
  });
}

TEST(RemoteJobTest, AtMostEightHostsConnectAtOnce) {
  std::vector<std::string> hosts;
  for (int i = 0; i < 20; ++i) hosts.push_back(absl::StrCat("n", i));
  RemoteJob job({.hosts = hosts, .least = 20, .version = "1"});
  EXPECT_EQ(job.Start({}).size(), RemoteJob::kMaxAtOnce);
  EXPECT_EQ(job.OnGreeting(3, {"1", "n3", "10.0.0.3"}, {}), (RemoteJob::Effects{{Kind::kConnect, 8}}));
}

/// Checks the effects for what a shell would complain about.
class Watcher {
 public:
  explicit Watcher(size_t hosts) : connected_(hosts), launched_(hosts) {}

  void Take(const RemoteJob::Effects& effects) {
    for (const RemoteEffect& effect : effects) {
      EXPECT_FALSE(over_) << "an effect behind the exit";
      const size_t host = effect.host;
      if (effect.kind == Kind::kConnect) {
        EXPECT_FALSE(connected_[host]);
        connected_[host] = true;
      } else if (effect.kind == Kind::kLaunch) {
        EXPECT_TRUE(connected_[host] && !launched_[host]);
        launched_[host] = true;
      } else if (effect.kind == Kind::kSignal) {
        EXPECT_TRUE(launched_[host]);
      } else if (effect.kind == Kind::kDisconnect) {
        EXPECT_TRUE(connected_[host]);
        Gone(host);
      } else if (effect.kind == Kind::kExit) {
        for (size_t i = 0; i < connected_.size(); ++i) EXPECT_FALSE(connected_[i]) << i;
        over_ = true;
      }
    }
  }
  void Gone(size_t host) { connected_[host] = launched_[host] = false; }
  bool connected(size_t host) const { return connected_[host]; }
  bool launched(size_t host) const { return launched_[host]; }
  bool over() const { return over_; }

 private:
  std::vector<bool> connected_, launched_;
  bool over_ = false;
};

/// Performs one random event, or none if it is impossible in this state.
void Step(RemoteJob& job, Watcher& watcher, std::vector<bool>& greeted, TimePoint now, uint32_t dice) {
  const size_t host = dice / 8 % greeted.size();
  if (!watcher.connected(host)) greeted[host] = false;
  const bool running = watcher.launched(host);
  if (dice % 8 < 3 && watcher.connected(host) && !greeted[host]) {
    greeted[host] = true;
    watcher.Take(job.OnGreeting(host, {dice % 97 == 0 ? "2" : "1", "h", "10.0.0.1"}, now));
  } else if (dice % 8 == 3 && watcher.connected(host)) {
    watcher.Gone(host);
    watcher.Take(job.OnLost(host, "why", now));
  } else if (dice % 8 == 4 && running) {
    watcher.Gone(host);
    watcher.Take(job.OnEnded(host, dice % 3 == 0 ? 7 : 0, now));
  } else if (dice % 64 == 5) {
    watcher.Take(job.OnSignal(SIGINT, dice % 128 == 5, now));
  } else {
    watcher.Take(job.OnTime(now));
  }
}

TEST(RemoteJobTest, RandomWalksEnd) {
  std::mt19937 dice(7);
  for (int walk = 0; walk < 2000; ++walk) {
    const size_t hosts = 1 + dice() % 5;
    RemoteJob job({.hosts = std::vector<std::string>(hosts, "h"),
                   .least = 1 + dice() % hosts,
                   .version = "1",
                   .stop_patience = std::chrono::seconds(50)});
    Watcher watcher(hosts);
    std::vector<bool> greeted(hosts);
    TimePoint now;
    watcher.Take(job.Start(now));
    for (int step = 0; step < 60 && !watcher.over(); ++step) {
      now += std::chrono::milliseconds(dice() % 3000);
      Step(job, watcher, greeted, now, dice());
    }
    // SIGINT always ends it.
    for (int i = 0; i < 3 && !watcher.over(); ++i) watcher.Take(job.OnSignal(SIGINT, true, now));
    ASSERT_TRUE(watcher.over() && job.over()) << "walk " << walk << ": " << job.Describe();
  }
}

}  // namespace
}  // namespace mtrun::launcher
