// The answer to whether a service may form a job's next generation, with its ground as data. The rules are
// those of docs/protocol.md, "Who may form a generation". A value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/authority/membership_view.h"

namespace mtrun::rendezvous {

struct FormationRight {
  enum class Ground {
    // It may:
    kOnlyService,   // R4
    kFirstService,  // R5, R6: no member decides, and this is the first service that is up
    kMembers,       // R7 to R10: the members here decide, and are a quorum
    // It may not:
    kKnowsNoJob,               // R4: it stands by, and knows no generation
    kNotProbed,                // R5, R6: the other services have not answered yet
    kPreceded,                 // R5: the service at `endpoint` comes first
    kJobElsewhere,             // R5: the service at `endpoint` has the job
    kServiceSilent,            // R5, R6: the service at `endpoint` may have the job
    kContinuesElsewhere,       // R6: the service at `endpoint` comes first, or has a newer generation
    kSpareMayHaveContinued,    // R6: the node of the service at `endpoint` has yet to come here
    kMembersMissing,           // R7: MembershipView::Absent, which may be thousands
    kHostMayHaveContinued,     // R8: only a service at `endpoint` knows
    kMembersLeftOut,           // R9: `hosts` would not be in the next generation
    kPredecessorMayBeFollowed  // R10: `hosts` may not know that generation `number` was followed
  };

  Ground ground = Ground::kOnlyService;
  std::string endpoint = {};
  std::vector<std::string> hosts = {};
  uint64_t number = 0;

  bool granted() const { return ground <= Ground::kMembers; }
  bool operator==(const FormationRight&) const = default;
};

/// Returns why the right to follow the generation of `view` is not granted, for people; "" if it is.
std::string Describe(const FormationRight& right, const MembershipView& view);

}  // namespace mtrun::rendezvous
