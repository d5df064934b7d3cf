#include "mtdata/stop_signal.h"

#include <signal.h>

#include <atomic>

#include "mtdata/commands.h"

namespace mtrun::mtdata {
namespace {

std::atomic<int> download_stop_signal = 0;
extern "C" void OnDownloadStop(int number) { download_stop_signal = number; }

}  // namespace

void StopAtSignals() {
  struct sigaction action {};
  action.sa_handler = OnDownloadStop;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

absl::Status CheckNotStopped() {
  return download_stop_signal == 0 ? absl::OkStatus()
                                   : absl::CancelledError("stopped; the data fetched so far is kept");
}

int ComplainOfDownload(const absl::Status& failed) {
  if (download_stop_signal != 0) return datasets::Complain(128 + download_stop_signal, failed);
  return datasets::Complain(absl::IsInvalidArgument(failed) ? datasets::kUsage : datasets::kFailure, failed);
}

}  // namespace mtrun::mtdata
