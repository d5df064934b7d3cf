// Signals that stop an import, or a download, of which what has arrived is kept.
#pragma once

#include <atomic>

#include "absl/status/status.h"

namespace mtrun::mtdata {

/// Lets SIGINT, SIGTERM and SIGHUP stop the command. `flags`: of sigaction.
void StopAtSignals(int flags = 0);
/// True once one of them has arrived.
const std::atomic<bool>& Stopped();
/// Returns the exit status of a command that one of them has stopped.
int StoppedStatus();
/// Returns kCancelled once one of them has arrived during a download.
absl::Status CheckNotStopped();
/// Prints why a download failed; returns its exit status.
int ComplainOfDownload(const absl::Status& failed);

}  // namespace mtrun::mtdata
