// The state that a service keeps for clients that watch (Watch): resource use from nodes, recent events, and
// ended jobs. Bounded; a value; time is an argument.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "rendezvous/wire/job_view.h"
#include "rendezvous/wire/node_use.h"

namespace mtrun::rendezvous {

class WatchState {
 public:
  /// Minimum time between two requests to agents, which are sent only while a client watches.
  static constexpr Duration kAskPause = std::chrono::seconds(2);
  /// How long an ended job is shown by a service that outlives it.
  static constexpr Duration kEndedShown = std::chrono::minutes(10);
  static constexpr size_t kMaxHappenings = 100, kMaxEnded = 100;  // per job; jobs

  using NodeKey = std::pair<std::string, std::string>;  // job id, node id

  /// Notes that a client watches. Returns the number of a request that all agents are to answer now, or
  /// nothing if it is too early for one.
  std::optional<int64_t> OnWatched(TimePoint now);
  void OnUse(const NodeKey& node, NodeUse use, TimePoint now);
  void OnNodeGone(const NodeKey& node) { uses_.erase(node); }
  /// Keeps a line of the log. `cause`: why a node is not in the job any more.
  void OnLine(const std::string& job_id, int64_t wall_ns, const std::string& text,
              const std::optional<Cause>& cause = std::nullopt);
  /// Notes the end of a job; replaces an earlier run that has ended.
  void OnEnded(const JobView& job, TimePoint now);
  /// Notes that the job is here again; its current state is shown.
  void OnBegun(const std::string& job_id) { ended_.erase(job_id); }

  struct Ended {
    JobView job;
    TimePoint at;
  };
  std::vector<WatchedNode> Uses(TimePoint now) const;
  /// Returns the newest of each job, oldest first.
  std::vector<Happening> Happenings() const;
  /// Returns the ended jobs that are still shown.
  std::vector<Ended> EndedJobs(TimePoint now);

 private:
  std::optional<TimePoint> asked_at_;
  int64_t asked_ = 0, happened_ = 0;
  std::map<NodeKey, std::pair<NodeUse, TimePoint>> uses_;
  std::map<std::string, std::deque<Happening>> happenings_;  // by job
  std::map<std::string, Ended> ended_;                       // by job
  std::deque<std::string> told_of_;                          // jobs, by the time of their newest event
};

}  // namespace mtrun::rendezvous
