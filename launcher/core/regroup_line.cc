#include "launcher/core/regroup_line.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/string_view.h"
#include "launcher/core/drain.h"
#include "rendezvous/reasons.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kLongest = 48;  // of what is not known here; names are not cut

/// "rank 1 (local 0, pid 100) on node2: killed by SIGKILL, log ...": without what stands in brackets.
std::string WithoutBrackets(std::string_view text) {
  std::string plain;
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (depth == 0) plain += c;
    if (c == ')' && depth > 0) --depth;
  }
  for (size_t twice; (twice = plain.find("  ")) != std::string::npos;) plain.erase(twice, 1);
  if (plain.ends_with(' ')) plain.pop_back();
  return plain;
}

std::string Cut(const std::string& text) {
  return text.size() <= kLongest ? text : absl::StrCat(text.substr(0, kLongest - 3), "...");
}

std::string Before(const std::string& text, const char* mark) { return text.substr(0, text.find(mark)); }

/// "node2" of "node2 is lost: why".
std::optional<std::pair<std::string, std::string>> Split(const std::string& text, const std::string& mark) {
  const size_t at = text.find(mark);
  if (at == std::string::npos) return std::nullopt;
  return std::pair(text.substr(0, at), text.substr(at + mark.size()));
}

std::string HowLost(const std::string& why) {
  if (const auto silent = Split(why, rendezvous::kSilentFor))
    return absl::StrCat("silent for ", silent->second);
  if (why == rendezvous::kAgentGone) return "killed";
  if (why == rendezvous::kStreamEnded || why == rendezvous::kConnectionBroke) return "connection lost";
  if (absl::StartsWith(why, rendezvous::kEvictedBy)) return "evicted";
  if (why == rendezvous::kNotBack) return "did not come back";
  return Cut(why);
}

/// Its agent's words, which name the node once more.
std::string HowLeft(const std::string& why) {
  if (const auto signal = Split(why, absl::StrCat(" ", Drain::kReceived)))
    return signal->second == "SIGINT" ? "Ctrl-C" : signal->second;
  if (const auto asked = Split(why, absl::StrCat(" ", Drain::kAskedBy)))
    return absl::StrCat("asked by ", asked->second);
  return Cut(why);
}

}  // namespace

std::string ShortReason(std::string_view reason) {
  std::string text = Before(WithoutBrackets(reason), "; ");
  text = Before(text, ", log ");
  if (const auto lost = Split(text, rendezvous::kIsLost))
    return absl::StrCat(lost->first, " lost (", HowLost(lost->second), ")");
  if (const auto leaves = Split(text, rendezvous::kLeaves))
    return absl::StrCat(leaves->first, " left (", HowLeft(leaves->second), ")");
  return Cut(text);
}

void RegroupLine::Ended(std::string_view reason, int workers, TimePoint now) {
  if (reason_.empty() || entered_) before_ = workers;  // else another one has not begun meanwhile
  if (reason_.empty() || entered_) ended_ = now;
  reason_ = ShortReason(reason);
  entered_ = false;
}

void RegroupLine::Entered(int workers) {
  after_ = workers;
  entered_ = true;
}

std::optional<std::string> RegroupLine::OnSteps(int64_t steps, TimePoint now) {
  if (reason_.empty() || !entered_) return std::nullopt;
  const std::string before = before_ == after_ ? "" : absl::StrCat(before_, " -> ");
  return absl::StrCat(std::exchange(reason_, ""), ": ", before, after_, after_ == 1 ? " worker" : " workers",
                      ", step ", steps, " continues after ", HumanDuration(now - ended_));
}

}  // namespace mtrun::launcher
