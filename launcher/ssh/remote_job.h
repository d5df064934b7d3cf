// Which of the hosts are in, and what is to be done about the others: the decisions of the mtrun that starts
// others by ssh. Each event gives the effects to perform, in order. Pure: time is an argument.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launcher/ssh/wire.h"

namespace mtrun::launcher {

struct RemoteEffect {
  enum class Kind {
    kConnect,     // starts the ssh to `host`
    kLaunch,      // sends it the order; `text`: the host of the endpoint
    kSignal,      // passes signal `number` on to its mtrun
    kDisconnect,  // ends the ssh, about which no event may follow
    kInform,      // says `text`
    kWarn,
    kFail,
    kExit,  // with status `number`; the last effect of all
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
    std::vector<std::string> hosts = {};  // their names, in the user's order
    size_t least = 1;                     // MIN of --nnodes
    std::string version = {};             // of this mtrun
    Duration stop_patience = {};          // from the first signal until connections are cut
  };
  using Effects = std::vector<RemoteEffect>;

  /// Connections that begin at once: a jump host takes no more.
  static constexpr size_t kMostAtOnce = 8;
  /// Once a host that is needed has failed, the others have so long to end by themselves.
  static constexpr Duration kFailPatience = std::chrono::seconds(10);
  /// A host that ssh has not reached says so much earlier; one that lets it in may have a shell whose files
  /// wait for something.
  static constexpr Duration kGreetingPatience = std::chrono::seconds(60);
  static constexpr Duration kFirstRetry = std::chrono::seconds(5), kLongestRetry = std::chrono::seconds(60);

  explicit RemoteJob(Config config);

  Effects Start(TimePoint now);
  Effects OnGreeting(size_t host, const Greeting& greeting, TimePoint now);
  /// Its mtrun ended with `status`.
  Effects OnEnded(size_t host, int status, TimePoint now);
  /// The connection ended, or did not begin, and nobody said how its mtrun ended.
  Effects OnLost(size_t host, const std::string& why, TimePoint now);
  /// `stops`: it ends the job.
  Effects OnSignal(int signal, bool stops, TimePoint now);
  /// When next_time() has come, at the latest.
  Effects OnTime(TimePoint now);
  std::optional<TimePoint> next_time() const;

  bool over() const { return over_; }
  /// "a running, b tried again", for tests and invariants.
  std::string Describe() const;

 private:
  enum class Stage { kWaiting, kConnecting, kGreeted, kRunning, kAbsent, kEnded };
  struct State {
    Stage stage = Stage::kWaiting;
    Greeting greeting;
    TimePoint greets_by = {};  // where it connects
    TimePoint retry_at = {};
    int failures = 0;           // since it was last there
    std::string last_why = {};  // what was said of it
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
  void SettleUnstarted(TimePoint now);
  void SettleStarted(TimePoint now);
  Effects Settle(TimePoint now);

  const Config config_;
  std::vector<State> hosts_;
  std::string endpoint_;  // "": nobody has been launched
  size_t ended_ = 0;      // mtruns that have said how
  bool stopping_ = false, over_ = false;
  int status_ = 0;  // of the job, as far as it is known
  int signal_ = 0, stops_ = 0;
  std::optional<TimePoint> fail_at_, cut_at_;
  Effects effects_;  // of the event that is being taken
};

}  // namespace mtrun::launcher
