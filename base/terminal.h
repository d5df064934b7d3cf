// Text on a terminal: columns, colours, width. Pure except for TerminalSize.
#pragma once

#include <string>
#include <string_view>

#include "base/worker_env.h"

namespace mtrun {

/// Environment variable with the maximum columns of a worker's lines, set if mtrun shows its standard output
/// on a terminal. If it is not set, a worker should not rewrite lines.
inline constexpr char kColumnsVariable[] = "MTRUN_COLUMNS";

struct TerminalSize {
  int columns = 0, rows = 0;  // 0: `fd` is not a terminal
  static TerminalSize Of(int fd);
  bool operator==(const TerminalSize&) const = default;
};

/// Returns whether to use colours: not if NO_COLOR is non-empty (no-color.org), nor on a dumb terminal.
bool WantsColours(const EnvironmentMap& environment);

/// Wraps `text` in a colour: "1" bold, "31" red, as in ECMA-48's SGR. Returns it unchanged if `colours` is
/// false or `colour` is "".
std::string Coloured(std::string_view text, std::string_view colour, bool colours);

/// Returns the columns of one UTF-8 line: escape sequences take none, every other character takes one.
size_t ColumnsOf(std::string_view line);
/// Returns the first `columns` columns of a line. Later escape sequences are kept, so that colours end.
std::string ClipColumns(std::string_view line, size_t columns);
/// Breaks a line at blanks into lines of at most `columns`; all but the first start with `indent` blanks. A
/// longer word stays whole, so that paths and commands can be copied.
std::string WrapColumns(std::string_view line, size_t columns, size_t indent);
/// Wraps a line for a terminal of `columns`, which would otherwise break it within a word; all but the first
/// start with `indent` blanks. Returns it unchanged if the terminal is very narrow or `columns` is 0 (not a
/// terminal).
std::string BreakForPeople(const std::string& line, int columns, size_t indent = 8);
/// Wraps each line of a text as BreakForPeople. The text may lack the last newline.
std::string BreakLinesForPeople(std::string_view text, int columns, size_t indent = 8);
/// Removes escape sequences, for a file.
std::string WithoutEscapes(std::string_view text);

}  // namespace mtrun
