// Calls to the services of a job from outside (mtrun --drain, --evict, --stop). Blocking, with a deadline;
// any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/client/credentials.h"
#include "rendezvous/wire/control_call.h"

namespace mtrun::rendezvous {

/// Answer of one service.
struct ControlAnswer {
  std::string endpoint;
  absl::Status reached = {};  // the error if there is no answer
  bool done = false, has_job = false;
  std::string text = {};       // for people
  std::string elsewhere = {};  // endpoint of the service that has the job instead
};

/// Combines the answers: the result lines of the services that performed the request. Otherwise returns
/// kFailedPrecondition with the refusals of those that have the job, or with all answers if none has it.
absl::StatusOr<std::string> JudgeAnswers(const std::vector<ControlAnswer>& answers);

/// Describes this process as the sender of a request.
Requester ThisProcess();

/// AskToControl with the token itself.
absl::StatusOr<std::string> ControlWith(const std::vector<std::string>& endpoints, bool insecure,
                                        const std::string& token, const ControlQuestion& question);
/// Asks the services at all `endpoints` (host:port) at once, for at most 5 s, then those that they name.
absl::StatusOr<std::string> AskToControl(const std::vector<std::string>& endpoints,
                                         const Credentials& credentials, const ControlQuestion& question);

}  // namespace mtrun::rendezvous
