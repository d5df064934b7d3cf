// Pieces of HTML. Pure functions. Arguments are plain text, never markup, unless stated otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "report/run_record.h"

namespace mtrun::report::html {

/// Escapes & < > " ', and replaces control characters and invalid UTF-8.
std::string Escape(std::string_view text);
/// Returns JSON that is safe within a <script>: no "</" and no "<!--".
std::string Embed(const nlohmann::ordered_json& value);
std::string Base64(std::string_view bytes);

struct Cell {
  std::string text;
  bool number = false;  // right-aligned
  bool mono = false;
  std::string tag = "";  // a badge after the text
};
/// Returns a table with a head; "" if there are no rows.
std::string TableOf(const std::vector<Cell>& head, const std::vector<std::vector<Cell>>& rows);
/// Returns names and values in two or four columns.
std::string Pairs(const Table& table);

/// Returns "12,345".
std::string Grouped(int64_t number);
std::string Percent(double fraction);
/// Returns "1.3 MiB".
std::string Bytes(int64_t bytes);

}  // namespace mtrun::report::html
