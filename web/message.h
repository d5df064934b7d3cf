// What a client asks and what it is answered. Values; no sockets.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mtrun::web {

struct Request {
  std::string method = "";                          // as it was sent: "GET"
  std::string path = "";                            // "/metrics", not decoded
  std::string query = "";                           // what follows the first "?", not decoded
  std::map<std::string, std::string> headers = {};  // names in lower case; repeated ones joined by ", "
  std::string body = "";

  bool operator==(const Request&) const = default;
};

/// Sets path and query from what stands in a request's first line; false when that begins with no "/".
bool ReadTarget(std::string_view target, Request* request);

struct Response {
  int status = 200;  // 200 to 599
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = "";
  std::vector<std::pair<std::string, std::string>> headers = {};  // besides type, length and connection

  bool operator==(const Response&) const = default;
};

/// The status, with its name as the body.
Response StatusResponse(int status);

/// What goes over the wire; to HEAD without the body, whose length it tells. A response that cannot be sent
/// (a status out of range, a line break in a header) is sent as a 500.
std::string ToBytes(const Response& response, bool with_body);

}  // namespace mtrun::web
