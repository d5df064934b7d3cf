#include "web/message.h"

#include <boost/beast/http/status.hpp>

#include "absl/strings/str_cat.h"

namespace mtrun::web {
namespace {

std::string NameOf(int status) {
  const auto name =
      boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(static_cast<unsigned>(status)));
  return std::string(name.data(), name.size());
}

bool IsOneLine(std::string_view text) { return text.find_first_of("\r\n") == std::string_view::npos; }

}  // namespace

bool CanBeSent(const Response& response) {
  if (response.status < 200 || response.status > 599 || !IsOneLine(response.content_type)) return false;
  for (const auto& [name, value] : response.headers) {
    if (!IsOneLine(name) || !IsOneLine(value)) return false;
  }
  return true;
}

bool ReadTarget(std::string_view target, Request* request) {
  if (target.empty() || target.front() != '/') return false;
  const size_t mark = target.find('?');
  request->path = target.substr(0, mark);
  request->query = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  return true;
}

Response StatusResponse(int status) {
  return {.status = status,
          .body = NameOf(status) + "\n",
          .headers = {{"X-Content-Type-Options", "nosniff"},
                      {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
                      {"Cache-Control", "no-store"}}};
}

std::string ToBytes(const Response& response, bool with_body, bool keep) {
  if (!CanBeSent(response)) return ToBytes(StatusResponse(500), with_body, keep);
  std::string bytes = absl::StrCat("HTTP/1.1 ", response.status, " ", NameOf(response.status), "\r\n");
  for (const auto& [name, value] : response.headers) absl::StrAppend(&bytes, name, ": ", value, "\r\n");
  const bool may_have_body = response.status != 204 && response.status != 304;
  if (may_have_body) absl::StrAppend(&bytes, "Content-Type: ", response.content_type, "\r\n");
  if (may_have_body && !response.live) absl::StrAppend(&bytes, "Content-Length: ", response.length(), "\r\n");
  absl::StrAppend(&bytes, "Connection: ", keep ? "keep-alive" : "close", "\r\n\r\n");
  if (may_have_body && with_body && !response.file && !response.live) bytes += response.body;
  return bytes;
}

}  // namespace mtrun::web
