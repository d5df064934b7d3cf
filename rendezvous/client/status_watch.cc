#include "rendezvous/client/status_watch.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rendezvous/client/job_finder.h"

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
  // The cursor is in the last row.
  if (lines.size() > static_cast<size_t>(rows)) lines.resize(static_cast<size_t>(rows));
  std::string screen = absl::StrCat(first ? kClearScreen : "", kHome);
  for (size_t i = 0; i < lines.size(); ++i)
    absl::StrAppend(&screen, i == 0 ? "" : "\n", lines[i], kClearLine);
  return absl::StrCat(screen, kClearBelow);
}

std::string StatusWatch::OnAnswer(const ServiceStatus& status, TimePoint now) {
  const bool first = !answered_;
  answered_ = now;
  for (const JobView& job : status.jobs) jobs_.insert(job.settings.job_id);
  const bool told = std::any_of(jobs_.begin(), jobs_.end(),
                                [&](const std::string& job) { return status.ended.contains(job); });
  // A service that has just started may still learn of its job.
  const bool certain = !status.jobs.empty() || told || status.uptime >= kPatience;
  over_ = !jobs_.empty() && AllEnded(status) && certain;
  const std::string text = json_ ? StatusLine(status) : StatusTable(status);
  if (rows_ > 0 && !json_) return Redrawn(text, rows_, first);
  std::string news = StatusLine(WithoutAges(status));
  if (news == printed_) return "";
  printed_ = std::move(news);
  return json_ || first ? text : absl::StrCat("\n", text);
}

absl::Status StatusWatch::OnSilence(const absl::Status& why, TimePoint now) const {
  if (!answered_) return why;
  if (now - *answered_ < kPatience) return absl::OkStatus();
  const std::string silence = HumanDuration(now - *answered_);
  if (jobs_.empty())
    return absl::UnavailableError(absl::StrCat("no answer for ", silence, ": ", why.message()));
  return LostJobError(silence, why);
}

}  // namespace mtrun::rendezvous
