// What a client asks and what it is answered. Values; no sockets.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/posix.h"
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

/// Bytes of an open file, sent from there.
struct FileBody {
  std::shared_ptr<const UniqueFd> fd = nullptr;
  int64_t offset = 0, length = 0;
  bool operator==(const FileBody&) const = default;
};

struct Response {
  int status = 200;  // 200 to 599
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = "";
  std::vector<std::pair<std::string, std::string>> headers = {};  // besides type, length and connection
  std::optional<FileBody> file = {};                              // the body instead of `body`
  std::shared_ptr<LiveBody> live = {};                            // likewise, for as long as the client reads

  int64_t length() const { return file ? file->length : static_cast<int64_t>(body.size()); }
  bool operator==(const Response&) const = default;
};

/// The status, with its name as the body.
Response StatusResponse(int status);

/// A status out of range or a line break in a header cannot be sent.
bool CanBeSent(const Response& response);

/// What goes over the wire, but for a file's bytes and a live body, whose end is that of the connection; to
/// HEAD without the body, whose length it tells. A response that cannot be sent is sent as a 500. `keep`: the
/// connection takes another request.
std::string ToBytes(const Response& response, bool with_body, bool keep = false);

}  // namespace mtrun::web
