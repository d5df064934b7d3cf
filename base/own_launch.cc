#include "base/own_launch.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/posix.h"
#include "base/unix_address.h"
#include "base/value_or.h"

namespace mtrun {
namespace {

constexpr const char* kStepVariables[] = {"SLURM_JOB_ID", "SLURM_STEP_ID", "LSB_JOBID", "PBS_JOBID"};
constexpr const char* kOfMtrun[] = {"MTRUN_SOCKET",     "MTRUN_GENERATION",       "MTRUN_LEASE",
                                    "MTRUN_STEP",       "MTRUN_WORKER",           "MTRUN_CONFIGURED_WORLD",
                                    "MTRUN_PORT_RANGE", "MTRUN_SHUTDOWN_TIMEOUT", "MTRUN_COLUMNS",
                                    "MTRUN_CHECKED"};

/// Returns 0 at the top, -1 if the process cannot be seen.
pid_t ParentPid(pid_t pid) {
  const absl::StatusOr<std::string> stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  if (!stat.ok()) return -1;
  // pid (name) state parent. The name can contain blanks and brackets.
  const size_t name_end = stat->rfind(')');
  pid_t parent = -1;
  if (name_end != std::string::npos) std::sscanf(stat->c_str() + name_end + 1, " %*c %d", &parent);
  return parent;
}

}  // namespace

SocketOwner LookAtOwner(const std::string& socket) {
  const absl::StatusOr<UnixAddress> address = ParseUnixAddress(socket);
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (!address.ok() || !probe.valid() || connect(probe.get(), address->get(), address->size) != 0 ||
      getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0)
    return SocketOwner::kUnknown;  // pid 0: it is in another pid namespace
  const pid_t guardian = ParentPid(peer.pid);
  if (guardian < 0) return SocketOwner::kUnknown;
  pid_t pid = getpid();
  while (pid > 0 && pid != peer.pid && pid != guardian) pid = ParentPid(pid);
  if (pid > 0) return SocketOwner::kAbove;
  return pid == 0 ? SocketOwner::kElsewhere : SocketOwner::kUnknown;
}

std::string StepOf(const EnvironmentMap& environment) {
  std::vector<std::string> parts;
  for (const char* name : kStepVariables)
    if (std::string part = ValueOr(environment, name); !part.empty()) parts.push_back(std::move(part));
  return absl::StrJoin(parts, ".");
}

std::string PlaceOf(const EnvironmentMap& environment) {
  return absl::StrCat(ValueOr(environment, "RANK"), "/", ValueOr(environment, "WORLD_SIZE"), " ",
                      ValueOr(environment, "TORCHELASTIC_RUN_ID"));
}

bool IsBelowMtrun(const EnvironmentMap& environment, SocketOwner owner) {
  const std::string step = StepOf(environment);
  return !ValueOr(environment, "MTRUN_SOCKET").empty() && owner != SocketOwner::kElsewhere &&
         ValueOr(environment, "MTRUN_STEP", step) == step;
}

void RemoveOtherJobs(EnvironmentMap& environment, SocketOwner owner) {
  if (ValueOr(environment, "MTRUN_SOCKET").empty()) return;
  const std::string place = PlaceOf(environment);
  const bool is_worker = ValueOr(environment, "MTRUN_WORKER", place) == place;
  if (is_worker && IsBelowMtrun(environment, owner)) return;
  for (const char* name : kOfMtrun) environment.erase(name);
  if (!is_worker) return;  // the other variables are another launcher's
  environment.erase("TORCHELASTIC_TIMER_FILE");
  for (const auto& [name, value] : ToEnvironment({})) environment.erase(name);
}

EnvironmentMap OwnLaunch(EnvironmentMap environment) {
  const std::string socket = ValueOr(environment, "MTRUN_SOCKET");
  if (!socket.empty()) RemoveOtherJobs(environment, LookAtOwner(socket));
  return environment;
}

}  // namespace mtrun
