#include "launcher/output/failure_report.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/signal_name.h"
#include "launcher/output/failure_message.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kWidth = 80;
/// Causes beside the root cause, two lines each: with heading and rest at most kMostLines.
constexpr size_t kMostOthers = (kMostLines - 2) / 2;

void Field(std::string* box, absl::string_view name, absl::string_view value) {
  if (!value.empty()) absl::StrAppend(box, "  ", name, std::string(12 - name.size(), ' '), ": ", value, "\n");
}

template <typename Failure>
std::string HowItEnded(const Failure& failure) {
  if (failure.signal != 0)
    return absl::StrCat("killed by ", SignalName(failure.signal), " (signal ", failure.signal, ")");
  return absl::StrCat("exit code ", failure.exit_code);
}

void AddCause(const FailureCause& cause, std::string* box) {
  const std::string local =
      cause.ranks.size() == 1 ? absl::StrCat(" (local rank ", cause.first.local_rank, ")") : "";
  absl::StrAppend(box, "  ", RanksText(cause.ranks), local, ": ", HowItEnded(cause.first), ", ",
                  cause.first.wall_time, "\n");
  const std::string gist = Gist(cause.first.message);
  if (!gist.empty()) absl::StrAppend(box, "    | ", gist, "\n");
}

void List(const std::vector<FailureCause>& causes, std::string* box) {
  if (causes.empty()) return;
  absl::StrAppend(box, "Also failed on this node (later, or because of it):\n");
  std::vector<int> hidden;
  for (size_t i = 0; i < causes.size(); ++i) {
    if (i < kMostOthers) {
      AddCause(causes[i], box);
    } else {
      hidden.insert(hidden.end(), causes[i].ranks.begin(), causes[i].ranks.end());
    }
  }
  if (hidden.empty()) return;
  std::sort(hidden.begin(), hidden.end());
  const size_t more = causes.size() - kMostOthers;
  absl::StrAppend(box, "  ", RanksText(hidden), ": ", more, more == 1 ? " more cause" : " more causes",
                  ", in the log of each\n");
}

void AddRootCause(const rendezvous::WorkerFailure& cause, const std::vector<int>& alike, std::string* box) {
  absl::StrAppend(box, "Root cause (the earliest failure of all nodes):\n");
  Field(box, "what", HowItEnded(cause));
  const std::string rank = cause.rank < 0 ? "none yet" : absl::StrCat(cause.rank);
  Field(box, "rank", absl::StrCat(rank, " (local rank ", cause.local_rank, ")"));
  if (!alike.empty()) Field(box, "failed alike", absl::StrCat(RanksText(alike), " of this node"));
  Field(box, "pid", absl::StrCat(cause.pid));
  Field(box, "host", cause.host);
  Field(box, "time", cause.wall_time);
  Field(box, "log file", cause.log_file);
  if (cause.message.empty()) return;
  absl::StrAppend(box, "  message     :\n");
  for (const std::string& line : Excerpt(cause.message, cause.log_file))
    absl::StrAppend(box, "    | ", line, "\n");
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
  std::vector<FailureCause> causes = FoldCauses(others);
  if (outcome.root_cause) {
    const std::vector<int> alike = TakeAlike(*outcome.root_cause, &causes);
    AddRootCause(*outcome.root_cause, alike, &box);
  }
  List(causes, &box);
  absl::StrAppend(&box, thick, "\n");
  return box;
}

}  // namespace mtrun::launcher
