// An operator's statement that a node never comes back: which member of which job it names, why it is
// refused, and what the job does then. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rendezvous/job/job_choice.h"
#include "rendezvous/job/state_machine.h"

namespace mtrun::rendezvous {

/// The node to evict, and its name for people.
struct Eviction {
  std::string job_id, node_id, name;
  Generation generation;  // the job's last, or an earlier one that counts; the node is a member of it
};

/// Returns the member that `name` (a host or a node id) names, of the job's members that may be awaited
/// (JobMachine::AwaitedMembers). kNotFound: no generation of the job is known here (yet: an agent reports its
/// generation after its Hello). kFailedPrecondition: there is no such member, or it cannot be evicted because
/// it is connected.
absl::StatusOr<Eviction> ChooseMember(const JobMachine& job, const std::string& name, TimePoint now);

/// Returns the event of an eviction.
ControlAsked EvictionEvent(const Eviction& eviction, const Requester& by = {});

/// Returns one line for the sender, after the event, with the result and the job's next action.
std::string DescribeEviction(const Eviction& eviction, const Jobs& jobs, TimePoint now);

}  // namespace mtrun::rendezvous
