// Calls to the services of a job from outside (mtrun --drain, --evict, --stop). Blocking, with a deadline;
// any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/control_choice.h"
#include "rendezvous/credentials.h"

namespace mtrun::rendezvous {

/// What one service answered.
struct ControlAnswer {
  std::string endpoint;
  absl::Status reached = {};  // why there is no answer
  bool done = false, has_job = false;
  std::string text = {};  // for people
};

/// What all of them come to: what has happened, a line each of those that have done it. Else the
/// refusals of those that have the job; where none has it, what each said. kFailedPrecondition.
absl::StatusOr<std::string> JudgeAnswers(const std::vector<ControlAnswer>& answers);

/// This process, as it says who it is.
Requester ThisProcess();

/// AskToControl with the token itself.
absl::StatusOr<std::string> ControlWith(const std::vector<std::string>& endpoints, bool insecure,
                                        const std::string& token, const ControlQuestion& question);
/// Asks the service at each of `endpoints` (host:port), all at once, for 5 s at most.
absl::StatusOr<std::string> AskToControl(const std::vector<std::string>& endpoints,
                                         const Credentials& credentials, const ControlQuestion& question);

}  // namespace mtrun::rendezvous
