#include "launcher/output/failure_report.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/signal_name.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kWidth = 80;

void Field(std::string* box, absl::string_view name, absl::string_view value) {
  if (!value.empty()) absl::StrAppend(box, "  ", name, std::string(12 - name.size(), ' '), ": ", value, "\n");
}

template <typename Failure>
std::string HowItEnded(const Failure& failure) {
  if (failure.signal != 0)
    return absl::StrCat("killed by ", SignalName(failure.signal), " (signal ", failure.signal, ")");
  return absl::StrCat("exit code ", failure.exit_code);
}

/// The line that says most: the first of a recorded error, the last of what a worker only printed.
absl::string_view Gist(absl::string_view message) {
  const size_t last = message.rfind('\n');
  if (message.substr(0, 1) == "(" && last != absl::string_view::npos) message.remove_prefix(last + 1);
  return message.substr(0, std::min(message.find('\n'), size_t{200}));
}

void List(const std::vector<OtherFailure>& others, std::string* box) {
  if (others.empty()) return;
  absl::StrAppend(box, "Also failed on this node (later, or because of it):\n");
  for (const OtherFailure& other : others) {
    absl::StrAppend(box, "  rank ", other.rank, " (local rank ", other.local_rank, "): ", HowItEnded(other),
                    ", ", other.wall_time, "\n");
    if (!other.message.empty()) absl::StrAppend(box, "    | ", Gist(other.message), "\n");
  }
}

}  // namespace

bool OnlyObeyed(const WorkerExited& ended) {
  // Who has a handler for SIGTERM says by its exit code why it ended, as a shell does.
  const int signal = ended.signal != 0 ? ended.signal : ended.exit_code - 128;
  return !ended.recorded && (signal == SIGTERM || (signal == SIGKILL && ended.signal != 0));
}

std::string FailureReport(const std::string& program, const rendezvous::JobOutcome& outcome,
                          const std::vector<OtherFailure>& others) {
  const std::string thick(kWidth, '='), thin(kWidth, '-');
  std::string box =
      absl::StrCat(thick, "\n", program, outcome.stopped ? " STOPPED\n" : " FAILED\n", thin, "\n");
  Field(&box, "reason", outcome.reason);
  Field(&box, "exit code", absl::StrCat(outcome.exit_code));
  if (outcome.root_cause) {
    const rendezvous::WorkerFailure& cause = *outcome.root_cause;
    absl::StrAppend(&box, "Root cause (the earliest failure of all nodes):\n");
    Field(&box, "what", HowItEnded(cause));
    const std::string rank = cause.rank < 0 ? "none yet" : absl::StrCat(cause.rank);
    Field(&box, "rank", absl::StrCat(rank, " (local rank ", cause.local_rank, ")"));
    Field(&box, "pid", absl::StrCat(cause.pid));
    Field(&box, "host", cause.host);
    Field(&box, "time", cause.wall_time);
    Field(&box, "log file", cause.log_file);
    if (!cause.message.empty()) {
      absl::StrAppend(&box, "  message     :\n");
      for (absl::string_view line : absl::StrSplit(cause.message, '\n'))
        absl::StrAppend(&box, "    | ", line, "\n");
    }
  }
  List(others, &box);
  absl::StrAppend(&box, thick, "\n");
  return box;
}

}  // namespace mtrun::launcher
