// Generations before the last one that another one of several services could still follow, because too few of
// their members know that they were followed (docs/protocol.md, R10). Pure; a value; not thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/authority/departures.h"
#include "rendezvous/authority/member_count.h"
#include "rendezvous/authority/member_index.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

class Predecessors {
 public:
  struct Predecessor {
    Assignment generation;
    MemberIndex index;                 // index of the generation's members
    std::set<std::string> gone, left;  // members that were gone or had left, by Departures
    std::set<std::string> aware;       // members that know of a later generation of this service
    bool operator==(const Predecessor&) const = default;
  };

  /// Notes that a generation formed here is about to follow `last`.
  void OnFollowed(const Assignment& last, const Departures& departures);
  /// Notes that `last` was formed elsewhere and was learned of from others; `before` was the last one here.
  void OnLearned(const std::optional<Assignment>& before, const Assignment& last);
  /// Notes that a node knows `other`, a generation older than `last`. If this service neither formed nor
  /// learned of it, another one did, and may follow it.
  void OnReported(const Assignment& other, const Generation& last);
  /// Returns the earlier generations that go with `next`, formed here, for services that learn of it from its
  /// members. At most kMaxEarlier, the newest.
  std::vector<EarlierGeneration> Before(const Assignment& next) const;
  /// Notes that the node knows of `generation`; `last` is this service's last generation.
  void OnKnown(const std::string& node_id, const Generation& generation, const Generation& last);
  /// Forgets all, because all members know of the last generation (it has made a step), or enough do, as
  /// another service has found out.
  void Clear() {
    predecessors_.clear();
    followed_.clear();
  }

  /// Returns a generation for which these nodes and aware members do not suffice, or null.
  const Predecessor* FindUnsure(const std::set<std::string>& nodes, const Departures& departures) const;
  /// Returns the members of all of them that are not gone, each once.
  std::vector<const Member*> Remaining(const Departures& departures) const;
  const Member* Find(const std::string& node_id) const;

  bool empty() const { return predecessors_.empty(); }
  /// Appends the services of the members.
  void AppendServices(std::vector<std::string>* endpoints) const;
  std::string Describe() const;
  bool operator==(const Predecessors&) const = default;

 private:
  void DropSure();

  std::vector<Predecessor> predecessors_;  // the oldest first
  std::set<Generation> followed_;          // those that were followed here since the oldest one
};

/// Counts members by name; those that have `left` do not count.
MemberCount CountMembers(const std::vector<Member>& members,
                         const std::function<bool(const std::string&)>& present,
                         const std::set<std::string>& gone, const std::set<std::string>& left);

}  // namespace mtrun::rendezvous
