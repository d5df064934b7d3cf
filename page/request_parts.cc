#include "page/request_parts.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/endpoint.h"
#include "base/string_view.h"
#include "base/utf8.h"
#include "web/static_path.h"

namespace mtrun::page {
namespace {

std::optional<std::string> Decoded(absl::string_view text) {
  return web::PercentDecoded(absl::StrReplaceAll(text, {{"+", " "}}));
}

bool IsPort(absl::string_view text) {
  int port = 0;
  return text.size() <= 5 && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, &port) && port <= 65535;
}

bool IsHostCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
}

}  // namespace

std::optional<std::map<std::string, std::string>> ParseForm(std::string_view text) {
  std::map<std::string, std::string> fields;
  size_t count = 0;
  for (const absl::string_view pair : absl::StrSplit(View(text), '&', absl::SkipEmpty())) {
    if (++count > kMaxFields) return std::nullopt;
    const size_t mark = pair.find('=');
    const auto name = Decoded(pair.substr(0, mark));
    const auto value = Decoded(mark == absl::string_view::npos ? "" : pair.substr(mark + 1));
    if (!name || !value) return std::nullopt;
    if (!IsUtf8(*name) || !IsUtf8(*value)) return std::nullopt;  // no RPC can carry it
    fields[*name] = *value;
  }
  return fields;
}

std::optional<std::string> BasicPasswordIn(std::string_view header) {
  absl::string_view rest = absl::StripAsciiWhitespace(View(header));
  if (!absl::StartsWithIgnoreCase(rest, "basic ")) return std::nullopt;
  std::string decoded;
  if (!absl::Base64Unescape(absl::StripAsciiWhitespace(rest.substr(6)), &decoded)) return std::nullopt;
  const size_t mark = decoded.find(':');
  if (mark == std::string::npos) return std::nullopt;
  return decoded.substr(mark + 1);
}

std::string BearerIn(std::string_view header) {
  const absl::string_view rest = absl::StripAsciiWhitespace(View(header));
  if (!absl::StartsWithIgnoreCase(rest, "bearer ")) return "";
  return std::string(absl::StripAsciiWhitespace(rest.substr(7)));
}

std::optional<std::string> HostIn(std::string_view header) {
  const absl::string_view text = absl::StripAsciiWhitespace(View(header));
  if (absl::StartsWith(text, "[")) {
    const size_t end = text.find(']');
    if (end == absl::string_view::npos) return std::nullopt;
    const absl::string_view port = text.substr(end + 1);
    std::string address = absl::AsciiStrToLower(text.substr(1, end - 1));
    if (!IsIpAddress(address) || (!port.empty() && (port[0] != ':' || !IsPort(port.substr(1)))))
      return std::nullopt;
    return address;
  }
  const size_t mark = text.find(':');
  const absl::string_view host = text.substr(0, mark);
  if (host.empty() || !std::all_of(host.begin(), host.end(), IsHostCharacter)) return std::nullopt;
  if (mark != absl::string_view::npos && !IsPort(text.substr(mark + 1))) return std::nullopt;
  return absl::AsciiStrToLower(host);
}

bool IsOurHost(std::string_view header, const std::vector<std::string>& names) {
  const std::optional<std::string> host = HostIn(header);
  if (!host) return false;
  return IsIpAddress(*host) || *host == "localhost" ||
         std::find(names.begin(), names.end(), *host) != names.end();
}

bool IsOwnOrigin(std::string_view origin, std::string_view host, bool encrypted) {
  if (!HostIn(host)) return false;
  const std::string own =
      absl::StrCat(encrypted ? "https://" : "http://", absl::StripAsciiWhitespace(View(host)));
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(View(origin)), own);
}

}  // namespace mtrun::page
