// Signals that stop a download: what has arrived is kept.
#pragma once

#include "absl/status/status.h"

namespace mtrun::mtdata {

/// Lets SIGINT, SIGTERM and SIGHUP stop a download.
void StopAtSignals();
/// Returns kCancelled once one of them has arrived.
absl::Status CheckNotStopped();
/// Prints why a download failed; returns its exit status.
int ComplainOfDownload(const absl::Status& failed);

}  // namespace mtrun::mtdata
