// What a client asks and what it is answered. Values; no sockets.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "web/live_body.h"

namespace mtrun::web {

struct Request {
  std::string method = "";                          // as it was sent: "GET"
  std::string path = "";                            // "/metrics", not decoded
  std::string query = "";                           // what follows the first "?", not decoded
  std::map<std::string, std::string> headers = {};  // names in lower case; repeated ones joined by ", "
  std::string body = "";
  std::string peer = "";  // the client's address in a form for comparisons only

  bool operator==(const Request&) const = default;
};

/// Sets path and query from what stands in a request's first line; false when that begins with no "/".
bool ReadTarget(std::string_view target, Request* request);

struct Response {
  int status = 200;  // 200 to 599
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = "";
  std::vector<std::pair<std::string, std::string>> headers = {};  // besides type, length and connection
  std::shared_ptr<LiveBody> live = {};  // what comes instead of `body`, for as long as the client reads

  bool operator==(const Response&) const = default;
};

/// The status, with its name as the body.
Response StatusResponse(int status);

/// What goes over the wire; to HEAD without the body, whose length it tells. A response that cannot be sent
/// (a status out of range, a line break in a header) is sent as a 500. Of a live body it is the head alone.
std::string ToBytes(const Response& response, bool with_body);

}  // namespace mtrun::web
