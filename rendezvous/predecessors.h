// Generations before the last one, whose members may take them for the last one still. Of several services
// another one may have enough of such a generation's members, and follow it with a generation of its own. So
// a service goes on from its last generation only with nodes that would do for each of these as well, until
// enough members know that theirs was followed (TakeoverQuorum). Pure; a value; not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/departures.h"
#include "rendezvous/member_index.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

class Predecessors {
 public:
  struct Predecessor {
    Assignment generation;
    MemberIndex index;                 // of its members
    std::set<std::string> gone, left;  // members, as Departures knew them
    std::set<std::string> aware;       // members that know of a later generation of this service
    bool operator==(const Predecessor&) const = default;
  };

  /// `last` is about to be followed by one that is formed here.
  void OnFollowed(const Assignment& last, const Departures& departures);
  /// `last` was formed elsewhere, and is known from others.
  void OnLearned(const Assignment& last);
  /// What goes with `next`, which is formed here, for a service that learns of it from its members: at most
  /// kMaxEarlier, the newest.
  std::vector<EarlierGeneration> Before(const Assignment& next) const;
  /// The node knows of `generation`; that of this service is the `last` one.
  void OnKnown(const std::string& node_id, const Generation& generation, const Generation& last);
  /// The last generation has made a step, so that all of its members know of it; or another service has found
  /// out that enough do.
  void Clear() { predecessors_.clear(); }

  /// One for which these nodes and those that know are not enough, as of now; null for none.
  const Predecessor* FindUnsure(const std::set<std::string>& nodes, const Departures& departures) const;
  /// Members that are not gone, of all of them, each once.
  std::vector<const Member*> Remaining(const Departures& departures) const;
  const Member* Find(const std::string& node_id) const;

  bool empty() const { return predecessors_.empty(); }
  /// The services of their members.
  void AppendServices(std::vector<std::string>* endpoints) const;
  std::string Describe() const;
  bool operator==(const Predecessors&) const = default;

 private:
  std::vector<Predecessor> predecessors_;  // the oldest first
};

/// Enough of a generation's members are `here` for nobody to follow it without them: all that are not gone,
/// or more than half of those that count. (The dead count against it: before they died they may have gone on
/// with those that are missing.)
inline bool AreMost(size_t here, size_t missing, size_t counted) {
  return missing == 0 || 2 * here > counted;
}
/// The same of members by name: those that have `left` do not count.
bool AreMost(const std::vector<Member>& members, const std::function<bool(const std::string&)>& present,
             const std::set<std::string>& gone, const std::set<std::string>& left);

}  // namespace mtrun::rendezvous
