#include "launcher/output/failure_report.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/signal_name.h"
#include "launcher/output/failure_message.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kMaxOthers = 3;  // causes besides the root cause, a block of lines each

void Field(std::string* box, absl::string_view name, absl::string_view value) {
  if (!value.empty()) absl::StrAppend(box, "  ", name, std::string(10 - name.size(), ' '), ": ", value, "\n");
}

void AddMessage(absl::string_view first, const std::vector<std::string>& lines, std::string* box) {
  Field(box, "traceback", first);
  for (const std::string& line : lines) absl::StrAppend(box, "    | ", line, "\n");
}

/// Adds the status as torchrun writes it: a signal as a negative number.
template <typename Failure>
void AddStatus(const Failure& failure, std::string* box) {
  const int code = failure.signal != 0 ? -failure.signal : failure.exit_code;
  const std::string name = failure.signal != 0 ? absl::StrCat(" killed by ", SignalName(failure.signal)) : "";
  Field(box, "exitcode", absl::StrCat(code, " (pid: ", failure.pid, ")", name));
}

template <typename Failure>
std::string SignalReceived(const Failure& failure) {
  return absl::StrCat("Signal ", failure.signal, " (", SignalName(failure.signal), ") received by PID ",
                      failure.pid);
}

void AddCause(size_t index, const FailureCause& cause, std::string* box) {
  absl::StrAppend(box, "[", index, "]:\n");
  Field(box, "time", cause.first.wall_time);
  Field(box, "rank", absl::StrCat(cause.first.rank, " (local_rank: ", cause.first.local_rank, ")"));
  if (cause.ranks.size() > 1) Field(box, "alike", RanksText(cause.ranks));
  AddStatus(cause.first, box);
  const std::string gist = Gist(cause.first.message);
  Field(box, "traceback", gist.empty() && cause.first.signal != 0 ? SignalReceived(cause.first) : gist);
}

void AddOthers(const std::vector<FailureCause>& causes, std::string* box) {
  absl::StrAppend(box, "Failures:\n");
  if (causes.empty()) absl::StrAppend(box, "  <NO_OTHER_FAILURES>\n");
  std::vector<int> hidden;
  for (size_t i = 0; i < causes.size(); ++i) {
    if (i < kMaxOthers) {
      AddCause(i + 1, causes[i], box);
    } else {
      hidden.insert(hidden.end(), causes[i].ranks.begin(), causes[i].ranks.end());
    }
  }
  if (hidden.empty()) return;
  std::sort(hidden.begin(), hidden.end());
  absl::StrAppend(box, "  ", RanksText(hidden), ": ", Counted(causes.size() - kMaxOthers, "more cause"),
                  ", in the log of each\n");
}

void AddRootCause(const rendezvous::WorkerFailure& cause, const std::vector<int>& alike, std::string* box) {
  absl::StrAppend(box, "Root Cause (first observed failure):\n[0]:\n");
  Field(box, "time", cause.wall_time);
  Field(box, "host", cause.host);
  const std::string rank = cause.rank < 0 ? "none yet" : absl::StrCat(cause.rank);
  Field(box, "rank", absl::StrCat(rank, " (local_rank: ", cause.local_rank, ")"));
  if (!alike.empty()) Field(box, "alike", absl::StrCat(RanksText(alike), " of this node"));
  AddStatus(cause, box);
  const bool recorded = !cause.message.empty() && !IsTail(cause.message);
  const std::string error_file = recorded ? ErrorFileBeside(cause.log_file) : "";
  Field(box, "error_file", error_file.empty() ? "<N/A>" : error_file);
  Field(box, "log_file", cause.log_file);
  std::vector<std::string> lines;
  if (!cause.message.empty()) lines = Excerpt(cause.message, cause.log_file);
  std::string first = cause.signal != 0 ? SignalReceived(cause) : "<N/A>";
  if (cause.signal == 0 && !lines.empty()) {
    first = lines.front();
    lines.erase(lines.begin());
  }
  AddMessage(first, lines, box);
}

/// Lists the workers that mtrun stopped because of the failure.
void AddStopped(const std::vector<OtherFailure>& others, std::string* box) {
  std::vector<int> ranks;
  for (const OtherFailure& other : others)
    if (other.stopped) ranks.push_back(other.rank);
  if (ranks.empty()) return;
  std::sort(ranks.begin(), ranks.end());
  absl::StrAppend(box, "Stopped by mtrun after that: ", RanksText(ranks), " of this node\n");
}

}  // namespace

bool OnlyObeyed(const WorkerExited& ended) {
  // A worker with a handler for SIGTERM reports the signal by its exit code, like a shell.
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
  std::vector<int> alike;
  if (outcome.root_cause) alike = TakeAlike(*outcome.root_cause, &causes);
  if (outcome.root_cause || !causes.empty()) AddOthers(causes, &box);
  if (outcome.root_cause) {
    absl::StrAppend(&box, thin, "\n");
    AddRootCause(*outcome.root_cause, alike, &box);
  }
  AddStopped(others, &box);
  absl::StrAppend(&box, thick, "\n");
  return box;
}

}  // namespace mtrun::launcher
