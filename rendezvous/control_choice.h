// What a service does about a call from outside: which job and node it means, the event that follows from it,
// and the answer. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rendezvous/control_call.h"
#include "rendezvous/job_choice.h"
#include "rendezvous/state_machine.h"

namespace mtrun::rendezvous {

struct ControlQuestion {
  std::string call;         // ControlCall::kDrain ...
  std::string job_id = {};  // "": the only one of the service
  std::string node = {};    // drain, evict: its host name or its node id
  bool checkpoint = false;  // stop
  Requester by = {};
};

/// The event that it comes to, and one line for who asked.
struct ControlDecision {
  std::string job_id;
  ControlAsked event;
  uint64_t generation = 0;  // evict: the node was a member of it
  std::string text = {};    // evict: "", for it depends on what the job makes of it
};

/// The same for one job.
absl::StatusOr<ControlDecision> DecideControl(const ControlQuestion& question, const JobMachine& job,
                                              TimePoint now);
/// kNotFound: the service does not have the job; kFailedPrecondition: what is wrong, and what to do.
absl::StatusOr<ControlDecision> DecideControl(const ControlQuestion& question, const Jobs& jobs,
                                              TimePoint now);

/// Where a rank runs.
struct RankPlace {
  std::string job_id, node_id, name;
};
/// kNotFound, kFailedPrecondition as above.
absl::StatusOr<RankPlace> FindRank(const Jobs& jobs, const std::string& job_id, int rank);

/// The line for who asked, after the event.
std::string DescribeControl(const ControlDecision& decision, const Jobs& jobs, TimePoint now);

}  // namespace mtrun::rendezvous
