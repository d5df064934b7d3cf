// What a terminal shows of a text: columns, colours, width. Pure but for TerminalSize.
#pragma once

#include <string>
#include <string_view>

#include "base/worker_env.h"

namespace mtrun {

/// Of a worker whose standard output mtrun shows on a terminal: columns that a line of its may have. Not set:
/// nobody sees a line being rewritten.
inline constexpr char kColumnsVariable[] = "MTRUN_COLUMNS";

struct TerminalSize {
  int columns = 0, rows = 0;  // 0: `fd` is no terminal
  static TerminalSize Of(int fd);
  bool operator==(const TerminalSize&) const = default;
};

/// Whether people want colours: not with a NO_COLOR that is not empty (no-color.org), nor on a dumb terminal.
bool WantsColours(const EnvironmentMap& environment);

/// `text` in a colour: "1" bold, "31" red, as in ECMA-48's SGR. As it is where `colours` is false or `colour`
/// "".
std::string Coloured(std::string_view text, std::string_view colour, bool colours);

/// Columns of one line of UTF-8: escape sequences have none, every other character has one.
size_t ColumnsOf(std::string_view line);
/// The first `columns` columns of a line; escape sequences behind them stay, so that colours end.
std::string ClipColumns(std::string_view line, size_t columns);
/// A line broken at blanks into lines of at most `columns`, all but the first begun with `indent` of them. A
/// word that is longer stays whole: paths and commands can be copied.
std::string WrapColumns(std::string_view line, size_t columns, size_t indent);
/// The same for a terminal of so many columns, which would break it within a word. As it is for a very narrow
/// one, and for 0: whatever is no terminal gets it whole.
std::string BreakForPeople(const std::string& line, int columns);
/// Without escape sequences, for a file.
std::string WithoutEscapes(std::string_view text);

}  // namespace mtrun
