// Signals that mtrun handles: those that stop the job, and those that it only forwards to the workers. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtrun::launcher {

struct SignalPlan {
  std::vector<int> stop;     // forwarded to the workers, which must then exit; sorted
  std::vector<int> forward;  // only forwarded; sorted, disjoint from `stop`
  bool stop_is_default = true;
  std::string stop_text = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";  // as torchrun tells its workers
  bool operator==(const SignalPlan&) const = default;
};

/// Returns torchrun's SIGTERM, SIGINT, SIGHUP and SIGQUIT; also SIGUSR1, which otherwise kills mtrun.
SignalPlan DefaultSignals();

/// Parses "SIGTERM,usr1, 10"; numbers and names without SIG are accepted. Names unknown on this system, and
/// SIGKILL, SIGSTOP and SIGCHLD, which cannot be handled on behalf of the workers, go to `unknown`.
std::vector<int> ParseSignals(std::string_view text, std::vector<std::string>* unknown);

}  // namespace mtrun::launcher
