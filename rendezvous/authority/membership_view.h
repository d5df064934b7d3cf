// A service's knowledge of a job's last generation. Refers to its parts, for the duration of a call.
#pragma once

#include <vector>

#include "rendezvous/authority/departures.h"
#include "rendezvous/authority/generation_record.h"
#include "rendezvous/authority/roster.h"

namespace mtrun::rendezvous {

struct MembershipView {
  const GenerationRecord& generation;
  const Roster& roster;          // the nodes that are registered here
  const Departures& departures;  // the members that are out of the generation

  /// True if a generation is known of which no member is left.
  bool NoneLeft() const { return generation.known() && departures.AreGone(generation.last()->members); }
  /// Returns the members that may be alive and are not registered here.
  std::vector<const Member*> Absent() const {
    std::vector<const Member*> members;
    if (!generation.known()) return members;
    for (const int rank : roster.attendance().absent()) {
      const Member& member = generation.last()->members[static_cast<size_t>(rank)];
      if (!departures.Gone(member.node_id)) members.push_back(&member);
    }
    return members;
  }
};

}  // namespace mtrun::rendezvous
