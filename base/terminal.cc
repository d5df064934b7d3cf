#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/string_view.h"
#include "base/value_or.h"

namespace mtrun {
namespace {

constexpr char kEscape = '\x1b';

/// Returns the length of the escape sequence at the start of `text`, 0 if there is none. CSI sequences end
/// with a letter or one of @[\]^_`{|}~; others are two bytes long.
size_t EscapeLength(std::string_view text) {
  if (text.empty() || text[0] != kEscape) return 0;
  if (text.size() < 2 || text[1] != '[') return text.size() < 2 ? 1 : 2;
  for (size_t i = 2; i < text.size(); ++i) {
    if (text[i] >= 0x40 && text[i] <= 0x7e) return i + 1;
  }
  return text.size();
}

/// Returns whether this is the second or a later byte of a UTF-8 character.
bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; }

/// Calls `escape` with each escape sequence and `other` with each byte between them.
template <typename Escape, typename Other>
void Walk(std::string_view text, Escape escape, Other other) {
  while (!text.empty()) {
    const size_t length = EscapeLength(text);
    if (length > 0) {
      escape(text.substr(0, length));
    } else {
      other(text[0]);
    }
    text.remove_prefix(length > 0 ? length : 1);
  }
}

}  // namespace

TerminalSize TerminalSize::Of(int fd) {
  constexpr int kColumns = 80, kRows = 24;  // if the terminal does not report a size
  winsize size = {};
  if (isatty(fd) != 1) return {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0) return {kColumns, kRows};
  return {size.ws_col > 0 ? size.ws_col : kColumns, size.ws_row > 0 ? size.ws_row : kRows};
}

bool WantsColours(const EnvironmentMap& environment) {
  return ValueOr(environment, "NO_COLOR").empty() && ValueOr(environment, "TERM") != "dumb";
}

std::string Coloured(std::string_view text, std::string_view colour, bool colours) {
  if (!colours || text.empty() || colour.empty()) return std::string(text);
  return absl::StrCat("\x1b[", View(colour), "m", View(text), "\x1b[0m");
}

size_t ColumnsOf(std::string_view line) {
  size_t columns = 0;
  Walk(
      line, [](std::string_view) {}, [&](char byte) { columns += Continues(byte) ? 0 : 1; });
  return columns;
}

std::string ClipColumns(std::string_view line, size_t columns) {
  std::string clipped;
  size_t seen = 0;
  Walk(
      line, [&](std::string_view sequence) { clipped += sequence; },
      [&](char byte) {
        if (!Continues(byte)) ++seen;
        if (seen <= columns) clipped += byte;
      });
  return clipped;
}

std::string WrapColumns(std::string_view line, size_t columns, size_t indent) {
  std::string wrapped;
  size_t column = 0;
  bool first = true;  // the next word is the first of its line
  while (!line.empty()) {
    const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
    const std::string_view word = line.substr(blanks, line.find(' ', blanks) - blanks);
    const size_t width = ColumnsOf(word);
    if (!first && column + blanks + width > columns) {
      wrapped += '\n' + std::string(indent, ' ');
      column = indent;
    } else {
      wrapped.append(blanks, ' ');
      column += blanks;
    }
    wrapped += word;
    column += width;
    first = false;
    line.remove_prefix(blanks + word.size());
  }
  return wrapped;
}

std::string BreakForPeople(const std::string& line, int columns, size_t indent) {
  constexpr int kNarrow = 40;
  if (columns < kNarrow || ColumnsOf(line) < static_cast<size_t>(columns)) return line;
  return WrapColumns(line, static_cast<size_t>(columns) - 1, indent);
}

std::string BreakLinesForPeople(std::string_view text, int columns, size_t indent) {
  return absl::StrJoin(absl::StrSplit(View(text), '\n'), "\n", [&](std::string* out, auto line) {
    absl::StrAppend(out, BreakForPeople(std::string(line), columns, indent));
  });
}

std::string WithoutEscapes(std::string_view text) {
  std::string plain;
  Walk(
      text, [](std::string_view) {}, [&](char byte) { plain += byte; });
  return plain;
}

}  // namespace mtrun
