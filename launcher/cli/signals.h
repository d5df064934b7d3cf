// Which signals mtrun answers: those that stop the job, those that are only passed on to the workers. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

struct SignalPlan {
  std::vector<int> stop;     // passed on to the workers, which then have to go; sorted
  std::vector<int> forward;  // passed on and nothing else; sorted, none of `stop`
  bool stop_is_default = true;
  bool operator==(const SignalPlan&) const = default;
};

/// SIGTERM, SIGINT, SIGHUP and SIGQUIT as torchrun; SIGUSR1 too, which would otherwise kill mtrun itself.
SignalPlan DefaultSignals();

/// "SIGTERM,usr1, 10" as signals; names without SIG and numbers are fine. Names that this system does not
/// have, and SIGKILL, SIGSTOP and SIGCHLD, which nobody can handle for another, go to `unknown`.
std::vector<int> ParseSignals(std::string_view text, std::vector<std::string>* unknown);

}  // namespace mtrun::launcher
