#include "mtdata/stop_signal.h"

#include <signal.h>

#include "mtdata/commands.h"

namespace mtrun::mtdata {
namespace {

std::atomic<bool> stopped = false;
std::atomic<int> stop_signal = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

extern "C" void OnStopSignal(int number) {
  stop_signal = number;
  stopped = true;
}

}  // namespace

void StopAtSignals(int flags) {
  struct sigaction action {};
  action.sa_handler = OnStopSignal;
  action.sa_flags = flags;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

const std::atomic<bool>& Stopped() { return stopped; }

int StoppedStatus() { return 128 + stop_signal; }

absl::Status CheckNotStopped() {
  return stopped ? absl::CancelledError("stopped; the data fetched so far is kept") : absl::OkStatus();
}

int ComplainOfDownload(const absl::Status& failed) {
  if (stopped) return datasets::Complain(StoppedStatus(), failed);
  return datasets::Complain(absl::IsInvalidArgument(failed) ? datasets::kUsage : datasets::kFailure, failed);
}

}  // namespace mtrun::mtdata
