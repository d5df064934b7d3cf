#include "launcher/top_screen.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace mtrun::launcher {
namespace {

constexpr char kBold[] = "1", kRed[] = "31", kGreen[] = "32", kYellow[] = "33", kReversed[] = "7";

/// By what a line of the table says of a node.
std::string ColourOf(const std::string& line) {
  if (absl::StartsWith(line, "job ")) return kBold;
  if (absl::StrContains(line, " lost ") || absl::StrContains(line, "no progress for")) return kRed;
  if (absl::StrContains(line, " member ")) return kGreen;
  if (absl::StrContains(line, " spare ") || absl::StrContains(line, " leaving ")) return kYellow;
  return "";
}

}  // namespace

void TopScreen::AddChange(const std::string& time, const std::string& what) {
  changes_.push_back(absl::StrCat(time, "  ", what));
  if (changes_.size() > kMostChanges) changes_.pop_front();
}

void TopScreen::OnAnswer(const rendezvous::ServiceStatus& status, const std::string& time) {
  if (!silence_.empty()) AddChange(time, "the service answers again");
  silence_.clear();
  last_time_ = time;
  table_ = rendezvous::StatusTable(status);
  std::map<std::string, std::string> now;
  for (const rendezvous::JobView& job : status.jobs) {
    const std::string& id = job.settings.job_id;
    now[id] = absl::StrCat(job.phase, ", generation ", job.generation.number,
                           job.reason.empty() ? "" : ": " + job.reason);
    const auto before = reasons_.find(id);
    if (before == reasons_.end() || before->second != now[id])
      AddChange(time, absl::StrCat(id, ": ", now[id]));
  }
  for (const auto& [id, reason] : reasons_) {
    if (!now.contains(id)) AddChange(time, absl::StrCat(id, " is gone"));
  }
  reasons_ = std::move(now);
}

void TopScreen::OnSilence(const absl::Status& why, const std::string& time) {
  if (silence_.empty()) AddChange(time, absl::StrCat("no answer: ", std::string(why.message())));
  silence_ = std::string(why.message());
}

std::string TopScreen::Draw(const TerminalSize& size) const {
  const auto rows = static_cast<size_t>(std::max(size.rows, 3)),
             columns = static_cast<size_t>(std::max(size.columns, 20));
  std::string heading = absl::StrCat("mtrun --top ", where_, "  ", last_time_, "  q quits");
  heading.resize(std::max(heading.size(), columns), ' ');
  std::vector<std::string> lines = {Coloured(ClipColumns(heading, columns), kReversed, colours_)};
  if (!silence_.empty()) lines.push_back(Coloured(absl::StrCat("no answer: ", silence_), kRed, colours_));
  for (const absl::string_view line : absl::StrSplit(table_, '\n'))
    lines.push_back(Coloured(std::string(line), ColourOf(std::string(line)), colours_));
  const size_t last = rows - 1;
  if (lines.size() > last) {
    lines.resize(last);
    lines.push_back(Coloured("... a taller terminal shows more", kYellow, colours_));
  } else if (lines.size() + 1 < last && !changes_.empty()) {
    lines.push_back(Coloured("changes", kBold, colours_));
    const size_t room = std::min(last + 1 - lines.size(), changes_.size());
    lines.insert(lines.end(), changes_.end() - static_cast<std::ptrdiff_t>(room), changes_.end());
  }
  std::string text;
  for (size_t row = 0; row < rows; ++row) {
    if (row > 0) text += "\n";
    if (row < lines.size()) text += ClipColumns(lines[row], columns);
  }
  return text;
}

}  // namespace mtrun::launcher
