// Indexes the nodes of a roster by what each event of a job asks of all of them: which nodes are ready, which
// one is lost next, what was sent to which. It follows each node's changes, so that a lookup costs the same
// with thousands of nodes as with few. A value, equal for equal rosters; not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/authority/node_facets.h"
#include "rendezvous/wire/job_run.h"

namespace mtrun::rendezvous {

class RosterIndex {
 public:
  using Ids = std::set<std::string>;

  /// Notes a change of the node; `before` is the state that was passed last.
  void Change(const std::string& node_id, const NodeFacets& before, const NodeFacets& after);
  /// The same for the frequent case, with each heartbeat, that only the time of its loss changes.
  void ChangeLoss(const std::string& node_id, TimePoint before, TimePoint after);

  const Ids& ready() const { return ready_; }
  const Ids& starting() const { return starting_; }
  const Ids& awaited() const { return awaited_; }
  const Ids& expected() const { return expected_; }
  /// Ready nodes, by the last text sent to them ("": nothing yet).
  const std::map<std::string, Ids>& told() const { return told_; }
  /// Nodes by the time of their loss, the next one first.
  const std::set<std::pair<TimePoint, std::string>, std::less<>>& losses() const { return losses_; }
  /// Returns the number of nodes that have named this host in an offer.
  size_t CountOf(const std::string& host) const;
  /// True if a node knows another run than this one.
  bool KnowsOther(const JobRun& run) const;

  bool operator==(const RosterIndex&) const = default;

 private:
  Ids ready_, starting_, awaited_, expected_;
  std::map<std::string, Ids> told_;  // without empty sets
  std::set<std::pair<TimePoint, std::string>, std::less<>> losses_;
  std::map<std::string, size_t> hosts_;  // without zeros
  std::map<uint64_t, size_t> runs_;      // number of nodes that know each run; without zeros
};

}  // namespace mtrun::rendezvous
