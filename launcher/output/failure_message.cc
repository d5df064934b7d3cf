#include "launcher/output/failure_message.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/terminal.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kFirstLines = 3;  // lines of the error; a gap and the innermost frames follow

std::string Clip(absl::string_view line) {
  std::string text(line);
  return ColumnsOf(text) <= kMaxColumns ? text : ClipColumns(text, kMaxColumns - 4) + " ...";
}

std::string Rest(size_t lines, bool tail, absl::string_view log_file) {
  const std::string path = tail ? std::string(log_file) : ErrorFileBeside(log_file);
  return absl::StrCat("(", lines, lines == 1 ? " more line" : " more lines",
                      tail ? ", and all before them" : "", path.empty() ? "" : " in ", path, ")");
}

}  // namespace

std::string ErrorFileBeside(absl::string_view log_file) {
  if (!absl::EndsWith(log_file, "/stderr.log")) return "";
  return absl::StrCat(absl::StripSuffix(log_file, "stderr.log"), "error.json");
}

std::string Gist(absl::string_view message) { return Clip(rendezvous::ErrorLine(message)); }

std::vector<std::string> Excerpt(absl::string_view message, absl::string_view log_file) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(absl::StripTrailingAsciiWhitespace(message), '\n'))
    lines.push_back(Clip(line));
  if (lines.size() <= kMaxLines) return lines;
  const bool tail = IsTail(message);
  std::vector<std::string> shown(lines.begin(), lines.begin() + (tail ? 1 : kFirstLines));
  if (!tail) shown.emplace_back("...");
  const size_t last = kMaxLines - shown.size();
  const size_t hidden = lines.size() - last - (tail ? 1 : kFirstLines);
  shown.insert(shown.end(), lines.end() - static_cast<std::ptrdiff_t>(last), lines.end());
  shown.push_back(Rest(hidden, tail, log_file));
  return shown;
}

}  // namespace mtrun::launcher
