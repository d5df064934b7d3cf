#include "rendezvous/status_watch.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace mtrun::rendezvous {
namespace {

constexpr char kHome[] = "\033[H", kClearScreen[] = "\033[2J", kClearLine[] = "\033[K",
               kClearBelow[] = "\033[J";

ServiceStatus WithoutAges(ServiceStatus status) {
  status.uptime = Duration::zero();
  for (JobView& job : status.jobs) {
    job.phase_age = Duration::zero();
    for (NodeView& node : job.nodes) node.silent_for = node.main_loop_age = node.note_age = Duration::zero();
  }
  return status;
}

}  // namespace

std::string Redrawn(const std::string& text, int rows, bool first) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  // The cursor stands in the last row.
  if (lines.size() > static_cast<size_t>(rows)) lines.resize(static_cast<size_t>(rows));
  std::string screen = absl::StrCat(first ? kClearScreen : "", kHome);
  for (size_t i = 0; i < lines.size(); ++i)
    absl::StrAppend(&screen, i == 0 ? "" : "\n", lines[i], kClearLine);
  return absl::StrCat(screen, kClearBelow);
}

std::string StatusWatch::OnAnswer(const ServiceStatus& status, TimePoint now) {
  const bool first = !answered_;
  answered_ = now;
  const bool ended = std::all_of(status.jobs.begin(), status.jobs.end(),
                                 [](const JobView& job) { return job.phase == "ended"; });
  had_job_ |= !status.jobs.empty();
  over_ = had_job_ && ended;
  const std::string text = json_ ? StatusLine(status) : StatusTable(status);
  if (rows_ > 0 && !json_) return Redrawn(text, rows_, first);
  std::string news = StatusLine(WithoutAges(status));
  if (news == printed_) return "";
  printed_ = std::move(news);
  return json_ || first ? text : absl::StrCat("\n", text);
}

absl::StatusOr<std::string> StatusWatch::OnSilence(const absl::Status& why, TimePoint now) {
  if (!answered_) return why;
  if (now - *answered_ < kPatience) return "";
  return absl::StrCat("no service has answered for ", HumanDuration(now - *answered_),
                      had_job_ ? ": the job has ended, or another node hosts it now" : "");
}

}  // namespace mtrun::rendezvous
