#include "launcher/ssh/failure_boxes.h"

#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/string_view.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kLeastRule = 40, kMaxLines = 500;

/// Returns whether the line is a rule, with which a box begins and ends.
bool IsRule(std::string_view line) {
  return line.size() >= kLeastRule && line.find_first_not_of('=') == std::string_view::npos;
}

/// Returns whether the line says how a program ended, as FailureReport does below the first rule.
bool IsTitle(std::string_view line) {
  return absl::EndsWith(View(line), " FAILED") || absl::EndsWith(View(line), " STOPPED");
}

}  // namespace

std::vector<std::string> FailureBoxes::Feed(std::string line) {
  const bool rule = IsRule(line);
  std::vector<std::string> now;
  if (held_.size() == 1 && !IsTitle(line)) now = Flush();
  if (held_.empty() && !rule) {
    now.push_back(std::move(line));
    return now;
  }
  held_.push_back(std::move(line));
  const bool whole = rule && held_.size() > 2;
  if (whole && !shown_->insert(absl::StrJoin(held_, "\n")).second) {
    held_.clear();
    return now;
  }
  return whole || held_.size() > kMaxLines ? Flush() : now;
}

std::vector<std::string> FailureBoxes::Flush() { return std::exchange(held_, {}); }

}  // namespace mtrun::launcher
