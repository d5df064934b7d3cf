// What a service keeps for people who watch (Watch): what nodes said of their workers, what has happened,
// jobs that are over. Bounded; a value; time is an argument.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "rendezvous/job_view.h"
#include "rendezvous/node_use.h"

namespace mtrun::rendezvous {

class Lookout {
 public:
  /// Agents are asked so often at most, and only while somebody watches.
  static constexpr Duration kAskPause = std::chrono::seconds(2);
  /// An ended job is shown for so long by a service that outlives it.
  static constexpr Duration kEndedShown = std::chrono::minutes(10);
  static constexpr size_t kMostHappenings = 100, kMostEnded = 100;  // of a job; jobs

  using NodeKey = std::pair<std::string, std::string>;  // job id, node id

  /// Somebody watches: the number of the question that all agents are to answer now, nothing when it is too
  /// early for one.
  std::optional<int64_t> OnWatched(TimePoint now);
  void OnUse(const NodeKey& node, NodeUse use, TimePoint now);
  void OnNodeGone(const NodeKey& node) { uses_.erase(node); }
  void OnLine(const std::string& job_id, int64_t wall_ns, const std::string& text);
  /// The job has ended; of one that has ended before, that run is replaced.
  void OnEnded(const JobView& job, TimePoint now);
  /// Such a job is here again: it is shown as it is.
  void OnBegun(const std::string& job_id) { ended_.erase(job_id); }

  struct Ended {
    JobView job;
    TimePoint at;
  };
  std::vector<WatchedNode> Uses(TimePoint now) const;
  /// Of each job the newest, oldest first.
  std::vector<Happening> Happenings() const;
  /// Those that are still shown.
  std::vector<Ended> EndedJobs(TimePoint now);

 private:
  std::optional<TimePoint> asked_at_;
  int64_t asked_ = 0, happened_ = 0;
  std::map<NodeKey, std::pair<NodeUse, TimePoint>> uses_;
  std::map<std::string, std::deque<Happening>> happenings_;  // by job
  std::map<std::string, Ended> ended_;                       // by job
  std::deque<std::string> told_of_;                          // jobs, by the time of their newest happening
};

}  // namespace mtrun::rendezvous
