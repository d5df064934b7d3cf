// An operator's word that a node never comes back: which member of which job it means, why it does not count,
// and what the job does then. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rendezvous/job_choice.h"
#include "rendezvous/state_machine.h"

namespace mtrun::rendezvous {

/// Whom to evict, and how people call it.
struct Eviction {
  std::string job_id, node_id, name;
  Generation generation;  // the last one of the job; the node is a member of it, or of one before that counts
};

/// The one of the job's members that may be waited for (JobMachine::AwaitedMembers) that `name` (a host or a
/// node id) means. kNotFound: no generation of the job is known here (yet: an agent says which it is in
/// behind its Hello). kFailedPrecondition says why there is no such member, or why it cannot be evicted: it
/// is connected.
absl::StatusOr<Eviction> ChooseMember(const JobMachine& job, const std::string& name, TimePoint now);

/// The same among the jobs of a service. `job_id` "": the only one that has not ended. kNotFound also: the
/// service does not have the job.
absl::StatusOr<Eviction> ChooseEviction(const Jobs& jobs, const std::string& job_id, const std::string& name,
                                        TimePoint now);

/// The event of it.
ControlAsked EvictionEvent(const Eviction& eviction, const Requester& by = {});

/// One line for who asked, after the event: what has happened and what the job does now.
std::string DescribeEviction(const Eviction& eviction, const Jobs& jobs, TimePoint now);

}  // namespace mtrun::rendezvous
