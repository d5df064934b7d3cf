// What a page knows beyond the newest answer of the service: how fast counters grow, and nodes that were
// there. A value; time is an argument.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "rendezvous/watch_client.h"

namespace mtrun::page {

/// A node that is in its job no more.
struct GoneNode {
  rendezvous::NodeView last;  // as it was
  TimePoint at;               // since when
  std::string why;            // what the service said of it, "" for nothing
  bool left = false;          // it went by itself or was asked to
};

class History {
 public:
  /// A node that is gone is shown for so long, or until its host is back; a member that was lost also while
  /// its job forms the next generation, for which it may have to be evicted.
  static constexpr Duration kGoneShown = std::chrono::minutes(2);

  void OnState(const rendezvous::WatchedState& state, TimePoint now);

  /// Processors that it keeps busy, between its last two answers; nothing before there are two.
  std::optional<double> BusyOf(const std::string& job, const std::string& node) const;
  std::optional<double> BusyOf(const std::string& job, const std::string& node, int64_t pid) const;
  /// Samples a second of the job, likewise.
  std::optional<double> RateOf(const std::string& job) const;
  /// By node id.
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
    std::optional<std::pair<Duration, int64_t>> samples;  // when, how many
    std::string counted;                                  // the node whose clock and count that are: rank 0's
    std::optional<double> rate;
  };
  void OnUse(const rendezvous::WatchedNode& node);
  void OnSamples(const rendezvous::WatchedNode& node);
  void OnJob(const rendezvous::JobView& view, const rendezvous::WatchedState& state, TimePoint now);

  std::map<NodeKey, Node> uses_;
  std::map<std::string, Job> jobs_;
};

}  // namespace mtrun::page
