// Monitoring of this node: the health endpoint, the file timer and the event log, as requested by options and
// torchrun's environment variables. Runs on the io_context's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "launcher/observe/event_log.h"
#include "launcher/observe/file_timer.h"
#include "launcher/observe/health.h"

namespace mtrun::launcher {

struct Watching {
  EventLog events;
  std::unique_ptr<web::HttpServer> health;  // may be null
  std::unique_ptr<FileTimerServer> timer;   // may be null

  /// TORCHELASTIC_TIMER_FILE for the workers, "" for none.
  std::string timer_file() const { return timer ? timer->path() : ""; }
};

/// Starts the services that `environment` and `event_log` request; `takes_part`: see StartHealthServer. A
/// port in use only causes a warning; every other failure is an error.
absl::StatusOr<Watching> StartWatching(asio::io_context& io, const EnvironmentMap& environment,
                                       const std::string& event_log, const std::string& run_id,
                                       std::function<bool()> takes_part);

}  // namespace mtrun::launcher
