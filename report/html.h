// Pieces of HTML. Pure functions; what they are given is text, never markup, unless they say so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "report/run_record.h"

namespace mtrun::report::html {

/// & < > " ' replaced; control characters and what is not UTF-8 too.
std::string Escape(std::string_view text);
/// JSON that may stand within a <script>: no "</" and no "<!--".
std::string Embed(const nlohmann::ordered_json& value);
std::string Base64(std::string_view bytes);

struct Cell {
  std::string text;
  bool number = false;  // to the right
  bool mono = false;
  std::string tag = "";  // a mark behind the text
};
/// With a head; "" without rows.
std::string TableOf(const std::vector<Cell>& head, const std::vector<std::vector<Cell>>& rows);
/// Names and values in two or four columns.
std::string Pairs(const Table& table);

/// "12,345".
std::string Grouped(int64_t number);
std::string Percent(double fraction);
/// "1.3 MiB".
std::string Bytes(int64_t bytes);

}  // namespace mtrun::report::html
