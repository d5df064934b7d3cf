// The nodes of a roster by what is asked of all of them at each event of a job: who is ready, who is lost
// next, what was told to whom. It follows each node's changes, so that an answer costs the same among
// thousands of nodes as among few. A value, and equal for equal rosters; not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/job_run.h"
#include "rendezvous/node_facets.h"

namespace mtrun::rendezvous {

class RosterIndex {
 public:
  using Ids = std::set<std::string>;

  /// The node changes; `before` as it was given last.
  void Change(const std::string& node_id, const NodeFacets& before, const NodeFacets& after);
  /// The same where no more changes than when it is lost: with each heartbeat.
  void ChangeLoss(const std::string& node_id, TimePoint before, TimePoint after);

  const Ids& ready() const { return ready_; }
  const Ids& starting() const { return starting_; }
  const Ids& awaited() const { return awaited_; }
  const Ids& expected() const { return expected_; }
  /// Nodes that are ready, by what they were told last ("": nothing yet).
  const std::map<std::string, Ids>& told() const { return told_; }
  /// Nodes by when they are lost, the next one first.
  const std::set<std::pair<TimePoint, std::string>, std::less<>>& losses() const { return losses_; }
  /// So many nodes have named this host in an offer.
  size_t CountOf(const std::string& host) const;
  /// A node knows another run than this one.
  bool KnowsOther(const JobRun& run) const;

  bool operator==(const RosterIndex&) const = default;

 private:
  Ids ready_, starting_, awaited_, expected_;
  std::map<std::string, Ids> told_;  // without empty sets
  std::set<std::pair<TimePoint, std::string>, std::less<>> losses_;
  std::map<std::string, size_t> hosts_;  // without zeros
  std::map<uint64_t, size_t> runs_;      // so many nodes know each; without zeros
};

}  // namespace mtrun::rendezvous
