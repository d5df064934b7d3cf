#include "launcher/ssh/remote_job.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/endpoint.h"
#include "base/status_macros.h"

namespace mtrun::launcher {
namespace {

constexpr int kSignalled = 128;

/// Returns true for localhost and its addresses, which mean another machine on each host.
bool MeansItself(const std::string& name) { return IsLoopback(name, NamesAsTheySay); }

std::string Hosts(size_t count) { return absl::StrCat(count, count == 1 ? " host" : " hosts"); }

}  // namespace

RemoteJob::RemoteJob(Config config) : config_(std::move(config)), hosts_(config_.hosts.size()) {
  MT_CHECK(!hosts_.empty() && config_.least >= 1 && config_.least <= hosts_.size());
}

size_t RemoteJob::Count(Stage stage) const {
  return static_cast<size_t>(
      std::count_if(hosts_.begin(), hosts_.end(), [&](const State& host) { return host.stage == stage; }));
}

size_t RemoteJob::Coming() const {
  return Count(Stage::kWaiting) + Count(Stage::kConnecting) + Count(Stage::kGreeted);
}

void RemoteJob::Say(RemoteEffect::Kind kind, std::string text) { Do(kind, 0, 0, std::move(text)); }

void RemoteJob::Do(RemoteEffect::Kind kind, size_t host, int number, std::string text) {
  effects_.push_back({kind, host, number, std::move(text)});
}

void RemoteJob::Connect(TimePoint now) {
  size_t connecting = Count(Stage::kConnecting);
  for (size_t i = 0; i < hosts_.size() && connecting < kMaxAtOnce; ++i) {
    if (hosts_[i].stage != Stage::kWaiting) continue;
    hosts_[i].stage = Stage::kConnecting;
    hosts_[i].greets_by = now + kGreetingPatience;
    Do(RemoteEffect::Kind::kConnect, i);
    ++connecting;
  }
}

/// Returns whether a loopback address may not lead from that host to us. If the host has not reported the
/// address that ssh used (which may come later), its name decides.
bool RemoteJob::MayBeApart(size_t host) const {
  const State& state = hosts_[host];
  if (state.stage == Stage::kEnded) return false;
  const std::string& address = state.greeting.address;
  const bool known = state.stage == Stage::kGreeted && !address.empty();
  return !MeansItself(known ? address : config_.hosts[host]);
}

/// Chooses the first present host, after all hosts before it are known to be absent. The others use the
/// address that ssh used; if that is a loopback address, its name.
bool RemoteJob::ChooseEndpoint() {
  if (!endpoint_.empty()) return true;
  const auto known = [](const State& host) {
    return host.stage != Stage::kAbsent && host.stage != Stage::kEnded;
  };
  const auto first = std::find_if(hosts_.begin(), hosts_.end(), known);
  if (first == hosts_.end() || first->stage != Stage::kGreeted) return false;
  const Greeting& greeting = first->greeting;
  const std::string& name = config_.hosts[static_cast<size_t>(first - hosts_.begin())];
  bool apart = false;
  for (size_t i = 0; i < hosts_.size(); ++i) apart = apart || MayBeApart(i);
  endpoint_ = greeting.address;
  if (endpoint_.empty() || (MeansItself(endpoint_) && apart))
    endpoint_ = MeansItself(name) ? greeting.host : name;
  return true;
}

void RemoteJob::Launch() {
  if (Count(Stage::kGreeted) + Count(Stage::kRunning) < config_.least && endpoint_.empty()) return;
  if (!ChooseEndpoint()) return;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].stage != Stage::kGreeted) continue;
    hosts_[i].stage = Stage::kRunning;
    Do(RemoteEffect::Kind::kLaunch, i, 0, endpoint_);
  }
}

RemoteJob::Effects RemoteJob::Start(TimePoint now) { return Settle(now); }

RemoteJob::Effects RemoteJob::OnGreeting(size_t host, const Greeting& greeting, TimePoint now) {
  State& state = hosts_[host];
  if (over_ || state.stage != Stage::kConnecting) return {};
  if (greeting.version != config_.version) {
    Say(RemoteEffect::Kind::kFail,
        absl::StrCat(config_.hosts[host], " has mtrun ", greeting.version, ", this is ", config_.version,
                     ": all nodes of a job must run the same version"));
    Do(RemoteEffect::Kind::kDisconnect, host);
    state.stage = Stage::kEnded;
    if (status_ == 0) status_ = 1;
    return Settle(now);
  }
  if (state.failures > 0)
    Say(RemoteEffect::Kind::kInform, absl::StrCat(config_.hosts[host], " is connected now"));
  state = {.stage = Stage::kGreeted, .greeting = greeting};
  return Settle(now);
}

RemoteJob::Effects RemoteJob::OnEnded(size_t host, int status, TimePoint now) {
  if (over_) return {};
  hosts_[host].stage = Stage::kEnded;
  ++ended_;
  // A node that failed while the job could continue without it does not end the job; later exits do.
  if (status_ == 0 || (!fail_at_ && !stopping_)) status_ = status;
  return Settle(now);
}

RemoteJob::Effects RemoteJob::OnLost(size_t host, const std::string& why, TimePoint now) {
  if (over_) return {};
  Leave(host, why, now);
  return Settle(now);
}

/// Marks the host absent, and schedules another attempt if the job can continue without it.
void RemoteJob::Leave(size_t host, const std::string& why, TimePoint now) {
  State& state = hosts_[host];
  const bool ran = state.stage == Stage::kRunning;
  state.stage = stopping_ ? Stage::kEnded : Stage::kAbsent;
  const Duration pause = std::min(kMaxRetry, kFirstRetry * (1 << std::min(state.failures, 4)));
  // Its mtrun may not have noticed the lost connection yet.
  state.retry_at = now + (ran ? std::max<Duration>(pause, kMaxSilence) : pause);
  ++state.failures;
  if (state.last_why == why) return;
  state.last_why = why;
  const bool enough = IsEnough() && !stopping_;
  Say(enough ? RemoteEffect::Kind::kWarn : RemoteEffect::Kind::kFail,
      absl::StrCat(ran ? "the connection to " : "", config_.hosts[host],
                   ran ? " is lost: " : " cannot be reached: ", why,
                   enough ? "; the job continues without it and keeps trying to connect" : ""));
}

RemoteJob::Effects RemoteJob::OnSignal(int signal, bool stops, TimePoint now) {
  if (over_) return {};
  if (stops) {
    if (signal_ == 0) signal_ = signal;
    ++stops_;
    if (!stopping_) {
      Stop(signal, now);
      return Settle(now);
    }
  }
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].stage == Stage::kRunning) Do(RemoteEffect::Kind::kSignal, i, signal);
  }
  // Their mtruns have received two signals.
  if (stops_ >= 3) Disconnect(Stage::kRunning);
  return Settle(now);
}

void RemoteJob::Stop(int signal, TimePoint now) {
  stopping_ = true;
  cut_at_ = now + config_.stop_patience;
  fail_at_.reset();
  for (const Stage stage : {Stage::kWaiting, Stage::kConnecting, Stage::kGreeted, Stage::kAbsent})
    Disconnect(stage);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].stage == Stage::kRunning) Do(RemoteEffect::Kind::kSignal, i, signal);
  }
}

void RemoteJob::Disconnect(Stage stage) {
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].stage != stage) continue;
    if (stage != Stage::kWaiting && stage != Stage::kAbsent) Do(RemoteEffect::Kind::kDisconnect, i);
    hosts_[i].stage = Stage::kEnded;
  }
}

RemoteJob::Effects RemoteJob::OnTime(TimePoint now) {
  if (over_) return {};
  for (State& host : hosts_) {
    if (host.stage == Stage::kAbsent && now >= host.retry_at) host.stage = Stage::kWaiting;
  }
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].stage != Stage::kConnecting || now < hosts_[i].greets_by) continue;
    Do(RemoteEffect::Kind::kDisconnect, i);
    Leave(i,
          absl::StrCat("no mtrun has answered there within ", kGreetingPatience / std::chrono::seconds(1),
                       " s (a startup file of its shell may be waiting for input)"),
          now);
  }
  if (fail_at_ && now >= *fail_at_) Stop(SIGTERM, now);
  if (cut_at_ && now >= *cut_at_) {
    if (Count(Stage::kRunning) > 0) {
      Say(RemoteEffect::Kind::kWarn,
          absl::StrCat(Hosts(Count(Stage::kRunning)),
                       " did not end in time: closing the connections, which ends everything there"));
    }
    Disconnect(Stage::kRunning);
  }
  return Settle(now);
}

/// Handles hosts lost before or after the launch, without a signal.
void RemoteJob::SettleLost(TimePoint now) {
  if (IsEnough()) return;
  if (!endpoint_.empty() && ended_ > 0) {
    // A job ends on all nodes. If a node failed to start, the others would wait for it in vain.
    if (status_ != 0 && !fail_at_) fail_at_ = now + kFailPatience;
    return;
  }
  if (!endpoint_.empty()) {
    Say(RemoteEffect::Kind::kFail,
        absl::StrCat("the job ends: it needs ", Hosts(config_.least), " (--nnodes), and ",
                     Count(Stage::kRunning) + Coming(), " of ", hosts_.size(), " are left"));
  } else if (hosts_.size() > 1) {  // the error of a single host was already reported
    Say(RemoteEffect::Kind::kFail,
        absl::StrCat("nothing is started: the job needs ", Hosts(config_.least), " (--nnodes), and at most ",
                     Coming(), " of ", hosts_.size(), " can be reached"));
  }
  if (status_ == 0) status_ = 1;
  Stop(SIGTERM, now);
}

/// Runs at the end of every event.
RemoteJob::Effects RemoteJob::Settle(TimePoint now) {
  if (!stopping_ && endpoint_.empty()) SettleLost(now);
  if (!stopping_) {
    Connect(now);
    Launch();
    if (!endpoint_.empty()) SettleLost(now);
  }
  if (Count(Stage::kRunning) == 0 && (stopping_ || ended_ > 0)) {
    for (const Stage stage : {Stage::kConnecting, Stage::kGreeted}) Disconnect(stage);
    over_ = true;
    // The outcome on the other hosts is unknown.
    if (status_ == 0 && ended_ < config_.least) status_ = signal_ != 0 ? kSignalled + signal_ : 1;
    Do(RemoteEffect::Kind::kExit, 0, status_);
  }
  return std::exchange(effects_, {});
}

std::optional<TimePoint> RemoteJob::next_time() const {
  if (over_) return std::nullopt;
  std::optional<TimePoint> next = fail_at_;
  for (const State& host : hosts_) {
    if (host.stage == Stage::kAbsent) next = Earlier(next, host.retry_at);
    if (host.stage == Stage::kConnecting) next = Earlier(next, host.greets_by);
  }
  return Count(Stage::kRunning) > 0 ? Earlier(next, cut_at_) : next;
}

std::string RemoteJob::Describe() const {
  constexpr const char* kStages[] = {"waits", "connects", "greeted", "runs", "absent", "ended"};
  std::vector<std::string> texts;
  for (size_t i = 0; i < hosts_.size(); ++i)
    texts.push_back(absl::StrCat(config_.hosts[i], " ", kStages[static_cast<size_t>(hosts_[i].stage)]));
  return absl::StrCat(absl::StrJoin(texts, ", "), endpoint_.empty() ? "" : absl::StrCat("; at ", endpoint_),
                      stopping_ ? "; stopping" : "", over_ ? "; over" : "");
}

}  // namespace mtrun::launcher
