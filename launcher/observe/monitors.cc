#include "launcher/observe/monitors.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/log.h"
#include "base/signal_name.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "launcher/workers/process_tree.h"

namespace mtrun::launcher {
namespace {

/// Signals the process only if it descends from mtrun, because any process can write to the pipe.
void EndExpired(const FileTimers::Expired& expired) {
  const std::vector<ProcessInfo> ours = DescendantsOf(getpid(), ListProcesses());
  const bool is_ours = std::any_of(ours.begin(), ours.end(),
                                   [&](const ProcessInfo& process) { return process.pid == expired.pid; });
  if (!is_ours) return log::Warning("file timer: process ", expired.pid, " is not a worker of this node");
  log::Error("the timer \"", expired.scope, "\" of process ", expired.pid, " has run out: sending it ",
             SignalName(expired.signal));
  kill(static_cast<pid_t>(expired.pid), expired.signal);
}

/// Returns null if there is no server: the job does not depend on it.
std::unique_ptr<web::HttpServer> StartHealth(asio::io_context& io, const std::string& text,
                                             std::function<bool()> takes_part) {
  int port = 0;
  if (!absl::SimpleAtoi(text, &port) || port < 0 || port > 65535) {
    log::Warning("TORCHELASTIC_HEALTH_CHECK_PORT: \"", text,
                 "\" is not a port, 0 to 65535; this node runs without a health endpoint");
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<web::HttpServer>> health =
      StartHealthServer(io, port, std::move(takes_part));
  if (!health.ok()) {
    log::Warning(health.status().message(), "; this node runs without one");
    return nullptr;
  }
  log::Info("the health endpoint answers on port ", (*health)->port());
  return *std::move(health);
}

}  // namespace

absl::StatusOr<Watching> StartWatching(asio::io_context& io, const EnvironmentMap& environment,
                                       const std::string& event_log, const std::string& run_id,
                                       std::function<bool()> takes_part) {
  Watching watching;
  MT_ASSIGN_OR_RETURN(watching.events, EventLog::Open(event_log, HostName(), run_id));
  if (const std::string port = ValueOr(environment, "TORCHELASTIC_HEALTH_CHECK_PORT"); !port.empty()) {
    watching.health = StartHealth(io, port, std::move(takes_part));
  }
  if (ValueOr(environment, "TORCHELASTIC_ENABLE_FILE_TIMER") == "1") {
    // In a worker it is the pipe of the outer mtrun, which reads it.
    const bool in_a_worker = !ValueOr(environment, "MTRUN_SOCKET").empty();
    const std::string path = in_a_worker ? "" : ValueOr(environment, "TORCHELASTIC_TIMER_FILE");
    MT_ASSIGN_OR_RETURN(watching.timer, FileTimerServer::Start(io, path, EndExpired));
  }
  return watching;
}

}  // namespace mtrun::launcher
