// Counts which members of the last generation are here, and which nodes are not told of it yet. Updated with
// each change of a node, because every event of a job needs it. A value, equal for equal rosters and
// generations; not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "rendezvous/authority/node_facets.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

class Attendance {
 public:
  /// Follows this generation from now on, or none. No node is here; the caller adds the nodes afterwards.
  void Follow(const std::optional<Assignment>& generation);
  /// Notes a change of the node; `before` is the state that was passed last.
  void Change(const std::string& node_id, const NodeFacets& before, const NodeFacets& after);

  /// True if all members, or more than half of them, run the generation for certain.
  bool AllConfirmed() const { return confirmed_ == members_.size(); }
  bool MostConfirmed() const { return 2 * confirmed_ > members_.size(); }
  /// Ranks (node_rank) of members that have not sent an offer over a stream to this record.
  const std::set<int>& absent() const { return absent_; }
  /// Ranks of members that have more workers ready than they have ranks.
  const std::set<int>& grown() const { return grown_; }
  /// True if a member that is here has said that it runs an ordinary program.
  bool ordinary() const { return !ordinary_.empty(); }
  /// Ranks of members that are here and whose stream has ended.
  const std::set<int>& fallen() const { return fallen_; }
  /// Nodes that are here, members or not, and were not told of this generation.
  const std::set<std::string>& untold() const { return untold_; }

  /// Returns "generation 2: 1 of 3 confirmed, absent 0 2, grown 1, untold node9", or "no generation".
  std::string Describe() const;
  bool operator==(const Attendance&) const = default;

 private:
  struct Share {
    int rank = 0, workers = 0;
    bool operator==(const Share&) const = default;
  };

  std::optional<Generation> generation_;
  std::map<std::string, Share> members_;
  size_t confirmed_ = 0;
  std::set<int> absent_, grown_, ordinary_, fallen_;
  std::set<std::string> untold_;
};

}  // namespace mtrun::rendezvous
