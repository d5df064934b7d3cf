// State that the page keeps beyond the service's newest answer: growth rates of counters, and nodes that have
// gone. A value; time is an argument.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "rendezvous/client/watch_client.h"

namespace mtrun::page {

/// A node that is no longer in its job.
struct GoneNode {
  rendezvous::NodeView last;               // its last state
  TimePoint at;                            // time at which it went
  std::optional<rendezvous::Cause> cause;  // from the service's last message about it
  /// True if it left voluntarily or was asked to.
  bool left() const { return cause && std::holds_alternative<rendezvous::NodeLeft>(cause->kind); }
};

class History {
 public:
  /// How long a gone node is shown, unless its host returns earlier. A lost member is also shown while its
  /// job forms the next generation, because the operator may have to evict it.
  static constexpr Duration kGoneShown = std::chrono::minutes(2);

  void OnState(const rendezvous::WatchedState& state, TimePoint now);

  /// Returns the number of processors that a node keeps busy, from its last two answers; nothing before that.
  std::optional<double> BusyOf(const std::string& job, const std::string& node) const;
  std::optional<double> BusyOf(const std::string& job, const std::string& node, int64_t pid) const;
  /// Returns the job's samples per second, measured likewise.
  std::optional<double> RateOf(const std::string& job) const;
  /// Returns gone nodes by node id.
  std::map<std::string, GoneNode> GoneOf(const std::string& job) const;

 private:
  using NodeKey = std::pair<std::string, std::string>;  // job, node id
  struct Node {
    rendezvous::NodeUse last;
    std::optional<double> busy;
    std::map<int64_t, double> workers;  // by pid
  };
  struct Job {
    std::map<std::string, rendezvous::NodeView> nodes;  // the newest, by id
    std::map<std::string, GoneNode> gone;
    std::optional<std::pair<Duration, int64_t>> samples;  // time and count
    std::string counted;                                  // the node that `samples` comes from: rank 0's
    std::optional<double> rate;
  };
  void OnUse(const rendezvous::WatchedNode& node);
  void OnSamples(const rendezvous::WatchedNode& node);
  void OnJob(const rendezvous::JobView& view, const rendezvous::WatchedState& state, TimePoint now);

  std::map<NodeKey, Node> uses_;
  std::map<std::string, Job> jobs_;
};

}  // namespace mtrun::page
