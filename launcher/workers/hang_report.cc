#include "launcher/workers/hang_report.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kFramesShown = 6;

/// Returns "" if the file cannot be read.
std::string TextIn(const std::string& path) { return ReadFile(path).value_or(""); }

/// Returns field 3 of proc(5)'s stat, which follows the name in brackets.
char StateOf(const std::string& stat) {
  const size_t bracket = stat.rfind(')');
  return bracket == std::string::npos || bracket + 2 >= stat.size() ? '?' : stat[bracket + 2];
}

std::string StateText(char state) {
  constexpr std::pair<char, const char*> kStates[] = {
      {'R', "is computing (R)"},
      {'S', "sleeps (S)"},
      {'D', "is stuck in the kernel (D: disk or network file system)"},
      {'T', "is stopped by a signal (T: SIGCONT would wake it)"},
      {'t', "is held by a debugger (t)"},
      {'Z', "has ended (Z)"},
  };
  for (const auto& [letter, text] : kStates)
    if (letter == state) return text;
  return absl::StrCat("is in state ", std::string(1, state));
}

/// Returns the function names: "[<0>] do_signal_stop+0x1b0/0x2f0" becomes do_signal_stop.
std::vector<std::string> FramesOf(const std::string& stack) {
  std::vector<std::string> frames;
  for (const absl::string_view line : absl::StrSplit(stack, '\n', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    const std::vector<absl::string_view> name = absl::StrSplit(words.back(), '+');
    frames.emplace_back(name.front());
    if (frames.size() == kFramesShown) break;
  }
  return frames;
}

}  // namespace

std::string DescribeHang(const std::string& root, int64_t pid) {
  const std::string folder = absl::StrCat(root, "/proc/", pid);
  const std::string stat = TextIn(folder + "/stat");
  if (stat.empty()) return absl::StrCat("pid ", pid, " is gone");
  std::string text = absl::StrCat("pid ", pid, " ", StateText(StateOf(stat)));
  const std::string channel(absl::StripAsciiWhitespace(TextIn(folder + "/wchan")));
  if (!channel.empty() && channel != "0") absl::StrAppend(&text, ", waits in ", channel);
  const std::vector<std::string> frames = FramesOf(TextIn(folder + "/stack"));
  if (!frames.empty()) absl::StrAppend(&text, "; kernel stack: ", absl::StrJoin(frames, " < "));
  return text;
}

}  // namespace mtrun::launcher
