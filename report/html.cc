#include "report/html.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/string_view.h"

namespace mtrun::report::html {

std::string Escape(std::string_view text) {
  // Invalid UTF-8 is replaced in the same way as in JSON.
  std::string sound = nlohmann::json::parse(
      nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  const auto is_control = [](unsigned char c) { return c < 0x20 && c != '\n' && c != '\t'; };
  std::replace_if(sound.begin(), sound.end(), is_control, ' ');
  return absl::StrReplaceAll(
      sound, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string Embed(const nlohmann::ordered_json& value) {
  return absl::StrReplaceAll(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                             {{"<", "\\u003c"}, {"\xe2\x80\xa8", "\\u2028"}, {"\xe2\x80\xa9", "\\u2029"}});
}

std::string Base64(std::string_view bytes) { return absl::Base64Escape(View(bytes)); }

std::string TableOf(const std::vector<Cell>& head, const std::vector<std::vector<Cell>>& rows) {
  if (rows.empty()) return "";
  std::string out = "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>";
  for (const Cell& cell : head)
    absl::StrAppend(&out, cell.number ? "<th class=\"n\">" : "<th>", Escape(cell.text), "</th>");
  out += "</tr></thead><tbody>";
  for (const auto& row : rows) {
    out += "<tr>";
    for (const Cell& cell : row) {
      const char* const kind = cell.number ? "<td class=\"n\">" : cell.mono ? "<td class=\"mono\">" : "<td>";
      absl::StrAppend(&out, kind, Escape(cell.text));
      if (!cell.tag.empty()) absl::StrAppend(&out, " <span class=\"tag\">", Escape(cell.tag), "</span>");
      out += "</td>";
    }
    out += "</tr>";
  }
  return out + "</tbody></table></div>\n";
}

std::string Pairs(const Table& table) {
  std::string out = "<dl class=\"pairs two\">";
  for (const auto& [name, value] : table)
    absl::StrAppend(&out, "<dt>", Escape(name), "</dt><dd class=\"mono\">", Escape(value), "</dd>");
  return out + "</dl>\n";
}

std::string Grouped(int64_t number) {
  const bool negative = number < 0;
  std::string digits =
      absl::StrCat(negative ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number));
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return absl::StrCat(negative ? "-" : "", digits);
}

std::string Percent(double fraction) {
  return std::isfinite(fraction) ? absl::StrFormat("%.2f %%", 100 * fraction) : "?";
}

std::string Bytes(int64_t bytes) {
  constexpr int64_t kKilo = 1024;
  const char* unit = "B";
  auto size = static_cast<double>(bytes);
  for (const char* const larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (size < kKilo) break;
    size /= kKilo;
    unit = larger;
  }
  return bytes < kKilo ? absl::StrFormat("%d B", bytes) : absl::StrFormat("%.1f %s", size, unit);
}

}  // namespace mtrun::report::html
