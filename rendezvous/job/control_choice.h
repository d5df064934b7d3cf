// Decides what a service does about a request from outside: which job and node it names, the event that
// follows, and the answer. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rendezvous/job/job_choice.h"
#include "rendezvous/job/state_machine.h"
#include "rendezvous/wire/control_call.h"

namespace mtrun::rendezvous {

/// The event that a request leads to, and one line for the sender.
struct ControlDecision {
  std::string job_id;
  ControlAsked event;
  uint64_t generation = 0;  // evict: the generation of which the node was a member
  std::string text = {};    // evict: "", because it depends on the job's reaction
};

/// The same for one job. REQUIRES: question.what is not monostate.
absl::StatusOr<ControlDecision> DecideControl(const ControlQuestion& question, const JobMachine& job,
                                              TimePoint now);
/// Returns kNotFound if the service lacks the job, kFailedPrecondition with what is wrong and what to do.
absl::StatusOr<ControlDecision> DecideControl(const ControlQuestion& question, const Jobs& jobs,
                                              TimePoint now);

/// The node that runs a rank.
struct RankPlace {
  std::string job_id, node_id, name;
};
/// Returns kNotFound and kFailedPrecondition as above.
absl::StatusOr<RankPlace> FindRank(const Jobs& jobs, const std::string& job_id, int rank);

/// Returns the line for the sender, after the event.
std::string DescribeControl(const ControlDecision& decision, const Jobs& jobs, TimePoint now);

}  // namespace mtrun::rendezvous
