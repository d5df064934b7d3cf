// Decisions of the mtrun that starts others by ssh: which hosts are connected, and what to do about the
// others. Each event returns the effects to perform, in order. Pure: time is an argument.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launcher/ssh/wire.h"

namespace mtrun::launcher {

struct RemoteEffect {
  enum class Kind {
    kConnect,     // start the ssh to `host`
    kLaunch,      // send it the order; `text`: host of the endpoint
    kSignal,      // forward signal `number` to its mtrun
    kDisconnect,  // end the ssh; no event about it may follow
    kInform,      // log `text`
    kWarn,
    kFail,
    kExit,  // exit with status `number`; the last effect
  };
  Kind kind = Kind::kInform;
  size_t host = 0;
  int number = 0;
  std::string text = {};
  bool operator==(const RemoteEffect&) const = default;
};

class RemoteJob {
 public:
  struct Config {
    std::vector<std::string> hosts = {};  // names in the user's order
    size_t least = 1;                     // MIN of --nnodes
    std::string version = {};             // of this mtrun
    Duration stop_patience = {};          // from the first signal until connections are closed
  };
  using Effects = std::vector<RemoteEffect>;

  /// Concurrent connection attempts: a jump host accepts no more.
  static constexpr size_t kMaxAtOnce = 8;
  /// After a required host has failed, the others have this long to exit by themselves.
  static constexpr Duration kFailPatience = std::chrono::seconds(10);
  /// Limit for the greeting. Unreachable hosts fail earlier; on others the shell's startup files may block.
  static constexpr Duration kGreetingPatience = std::chrono::seconds(60);
  static constexpr Duration kFirstRetry = std::chrono::seconds(5), kMaxRetry = std::chrono::seconds(60);

  explicit RemoteJob(Config config);

  Effects Start(TimePoint now);
  Effects OnGreeting(size_t host, const Greeting& greeting, TimePoint now);
  /// The host's mtrun exited with `status`.
  Effects OnEnded(size_t host, int status, TimePoint now);
  /// The connection ended or could not be opened, and the mtrun's status is unknown.
  Effects OnLost(size_t host, const std::string& why, TimePoint now);
  /// `stops`: the signal ends the job.
  Effects OnSignal(int signal, bool stops, TimePoint now);
  /// Call when next_time() is reached, or earlier.
  Effects OnTime(TimePoint now);
  std::optional<TimePoint> next_time() const;

  bool over() const { return over_; }
  /// Returns "a running, b tried again", for tests and invariants.
  std::string Describe() const;

 private:
  enum class Stage { kWaiting, kConnecting, kGreeted, kRunning, kAbsent, kEnded };
  struct State {
    Stage stage = Stage::kWaiting;
    Greeting greeting;
    TimePoint greets_by = {};  // deadline while connecting
    TimePoint retry_at = {};
    int failures = 0;           // since the last greeting
    std::string last_why = {};  // last reported error
  };

  size_t Count(Stage stage) const;
  size_t Coming() const;
  bool IsEnough() const { return Count(Stage::kRunning) + Coming() >= config_.least; }
  void Say(RemoteEffect::Kind kind, std::string text);
  void Do(RemoteEffect::Kind kind, size_t host, int number = 0, std::string text = {});
  void Connect(TimePoint now);
  void Launch();
  bool MayBeApart(size_t host) const;
  bool ChooseEndpoint();
  void Leave(size_t host, const std::string& why, TimePoint now);
  void Stop(int signal, TimePoint now);
  void Disconnect(Stage stage);
  void SettleLost(TimePoint now);
  Effects Settle(TimePoint now);

  const Config config_;
  std::vector<State> hosts_;
  std::string endpoint_;  // "": not launched yet
  size_t ended_ = 0;      // mtruns whose status is known
  bool stopping_ = false, over_ = false;
  int status_ = 0;  // exit status of the job so far
  int signal_ = 0, stops_ = 0;
  std::optional<TimePoint> fail_at_, cut_at_;
  Effects effects_;  // effects of the current event
};

}  // namespace mtrun::launcher
