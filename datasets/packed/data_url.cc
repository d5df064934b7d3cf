#include "datasets/packed/data_url.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "base/string_view.h"

namespace mtrun::datasets {
namespace {

constexpr std::string_view kMark = "://";
constexpr size_t kLongest = 2000;

int DefaultPort(const std::string& scheme) { return scheme == "https" ? 443 : scheme == "http" ? 80 : 0; }

absl::Status CheckPath(const std::string& path) {
  for (const char c : path) {
    if (c == '?' || c == '#')
      return absl::InvalidArgumentError("the name of a data set cannot contain a query or a fragment");
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c)) || c == ' ' || c == '\\')
      return absl::InvalidArgumentError("its path contains a character that must be percent-encoded");
  }
  for (const absl::string_view name : absl::StrSplit(path, '/')) {
    if (name == "." || name == "..") return absl::InvalidArgumentError("its path contains \"..\"");
  }
  return absl::OkStatus();
}

absl::Status ReadHost(std::string_view text, DataUrl& url) {
  if (text.find('@') != std::string_view::npos)
    return absl::InvalidArgumentError("it cannot contain a user name (give secrets with --data_bearer_file)");
  const size_t bracket = text.find(']');
  const size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string_view host = text.substr(0, colon);
  if (!host.empty() && host.front() == '[') {
    if (host.back() != ']') return absl::InvalidArgumentError("the ']' after its address is missing");
    host = host.substr(1, host.size() - 2);
  }
  url.host = host;
  if (host.empty()) return absl::InvalidArgumentError("its host is missing");
  for (const char c : host) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        std::string_view(".-_:").find(c) == std::string_view::npos)
      return absl::InvalidArgumentError(
          "a host name may contain only letters, digits, \".\", \"-\" and \"_\"");
  }
  url.port = DefaultPort(url.scheme);
  if (colon == std::string_view::npos) return absl::OkStatus();
  const std::string_view port = text.substr(colon + 1);
  if (url.scheme == "s3" || !absl::SimpleAtoi(View(port), &url.port) || url.port < 1 || url.port > 65535)
    return absl::InvalidArgumentError(absl::StrCat("\"", View(port), "\" is not a valid port"));
  return absl::OkStatus();
}

absl::Status ReadUrl(std::string_view text, DataUrl& url) {
  const size_t mark = text.find(kMark);
  url.scheme = absl::AsciiStrToLower(View(text.substr(0, mark)));
  if (url.scheme != "https" && url.scheme != "http" && url.scheme != "s3")
    return absl::InvalidArgumentError(
        "data sets are read over https://, s3:// and, only on this machine, http://");
  if (text.size() > kLongest) return absl::InvalidArgumentError("it is too long");
  std::string_view rest = text.substr(mark + kMark.size());
  const size_t slash = rest.find('/');
  MT_RETURN_IF_ERROR(ReadHost(rest.substr(0, slash), url));
  if (slash != std::string_view::npos) url.path = rest.substr(slash);
  while (!url.path.empty() && url.path.back() == '/') url.path.pop_back();
  MT_RETURN_IF_ERROR(CheckPath(url.path));
  if (url.scheme == "http" && !IsLoopback(url.host))
    return absl::InvalidArgumentError(
        "http:// is only for this machine, because the data could be altered on the network; `mtdata serve` "
        "serves https://");
  return absl::OkStatus();
}

}  // namespace

bool IsDataUrl(std::string_view text) {
  const size_t mark = text.find(kMark);
  if (mark == std::string_view::npos || mark == 0) return false;
  for (const char c : text.substr(0, mark)) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

absl::StatusOr<DataUrl> ParseDataUrl(std::string_view text) {
  DataUrl url;
  if (!IsDataUrl(text)) return absl::InvalidArgumentError(absl::StrCat("\"", View(text), "\" is not a URL"));
  MT_RETURN_IF_ERROR(Annotate(ReadUrl(text, url), absl::StrCat("\"", View(text), "\"")));
  return url;
}

std::string ToText(const DataUrl& url) {
  const bool v6 = url.host.find(':') != std::string::npos;
  std::string text = absl::StrCat(url.scheme, kMark.data(), v6 ? "[" : "", url.host, v6 ? "]" : "");
  if (url.port != DefaultPort(url.scheme)) absl::StrAppend(&text, ":", url.port);
  return text + url.path;
}

std::string PathInUrl(std::string_view path) {
  std::string text;
  for (const char c : path) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
        std::string_view("/-._~").find(c) != std::string_view::npos)
      text += c;
    else
      absl::StrAppendFormat(&text, "%%%02X", static_cast<unsigned char>(c));
  }
  return text;
}

}  // namespace mtrun::datasets
