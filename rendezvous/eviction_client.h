// Tells the services of a job that a node never comes back (mtrun --evict). Blocking calls with a deadline;
// any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/credentials.h"

namespace mtrun::rendezvous {

/// What one service answered.
struct EvictionAnswer {
  std::string endpoint;
  absl::Status reached = {};  // why there is no answer
  bool evicted = false, has_job = false;
  std::string text = {};  // for people
};

/// What all of them come to: what has happened, a line each of those that have evicted the node. Else the
/// refusals of those that have the job; where none has it, what each said. kFailedPrecondition.
absl::StatusOr<std::string> JudgeAnswers(const std::vector<EvictionAnswer>& answers);

/// Asks the service at each of `endpoints` (host:port), all at once, for 5 s at most. `job_id`
/// "": the only one there.
absl::StatusOr<std::string> AskToEvict(const std::vector<std::string>& endpoints,
                                       const Credentials& credentials, const std::string& job_id,
                                       const std::string& node);

}  // namespace mtrun::rendezvous
