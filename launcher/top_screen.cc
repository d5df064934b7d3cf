#include "launcher/top_screen.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace mtrun::launcher {
namespace {

constexpr char kBold[] = "1", kRed[] = "31", kGreen[] = "32", kYellow[] = "33", kReversed[] = "7";

/// Returns the colour for a table line, by its node's state.
std::string ColourOf(const std::string& line) {
  if (absl::StartsWith(line, "job ")) return kBold;
  if (absl::StrContains(line, " lost ") || absl::StrContains(line, "no progress for")) return kRed;
  if (absl::StrContains(line, " member ")) return kGreen;
  if (absl::StrContains(line, " spare ") || absl::StrContains(line, " leaving ")) return kYellow;
  return "";
}

constexpr size_t kIndent = 4, kMaxLines = 3;  // for texts longer than one line

/// Returns whether the line is a row of a node table, or its heading.
bool IsRow(absl::string_view line) {
  if (absl::StartsWith(line, "  node ")) return true;
  return line.size() > 2 && line.substr(0, 2) == "  " && (absl::ascii_isdigit(line[2]) || line[2] == '-');
}

/// Clips table rows, so that their columns stay aligned, and wraps other texts.
std::vector<std::string> Fitted(const std::string& line, size_t columns) {
  if (IsRow(line)) return {ClipColumns(line, columns)};
  std::vector<std::string> fitted = absl::StrSplit(WrapColumns(line, columns, kIndent), '\n');
  if (fitted.size() > kMaxLines) {
    fitted.resize(kMaxLines);
    fitted.back() = ClipColumns(fitted.back(), columns - 4) + " ...";
  }
  for (std::string& part : fitted) part = ClipColumns(part, columns);
  return fitted;
}

}  // namespace

void TopScreen::AddChange(const std::string& time, const std::string& what) {
  changes_.push_back(absl::StrCat(time, "  ", what));
  if (changes_.size() > kMaxChanges) changes_.pop_front();
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
  const auto add = [&](const std::string& line, const std::string& colour) {
    for (const std::string& part : Fitted(line, columns)) lines.push_back(Coloured(part, colour, colours_));
  };
  if (!silence_.empty()) add(absl::StrCat("no answer: ", silence_), kRed);
  for (const absl::string_view line : absl::StrSplit(table_, '\n'))
    add(std::string(line), ColourOf(std::string(line)));
  const size_t last = rows - 1;
  if (lines.size() > last) {
    lines.resize(last);
    lines.push_back(Coloured(ClipColumns("... a taller terminal shows more", columns), kYellow, colours_));
  } else if (lines.size() + 1 < last && !changes_.empty()) {
    lines.push_back(Coloured("changes", kBold, colours_));
    const std::vector<std::string> newest = NewestChanges(rows - lines.size(), columns);
    lines.insert(lines.end(), newest.begin(), newest.end());
  }
  lines.resize(rows);
  return absl::StrJoin(lines, "\n");
}

std::vector<std::string> TopScreen::NewestChanges(size_t room, size_t columns) const {
  std::deque<std::string> newest;
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    const std::vector<std::string> parts = Fitted(*change, columns);
    if (newest.size() + parts.size() > room) break;
    newest.insert(newest.begin(), parts.begin(), parts.end());
  }
  return {newest.begin(), newest.end()};
}

}  // namespace mtrun::launcher
