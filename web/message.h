// Requests and responses. Values; no sockets.
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
  std::string method = "";                          // as sent: "GET"
  std::string path = "";                            // "/metrics", not decoded
  std::string query = "";                           // the part after the first "?", not decoded
  std::map<std::string, std::string> headers = {};  // names in lower case; repeated ones joined by ", "
  std::string body = "";
  std::string peer = "";  // the client's address as people write it

  bool operator==(const Request&) const = default;
};

/// Sets path and query from a request's target; false if it does not begin with "/".
bool ReadTarget(std::string_view target, Request* request);

/// Bytes of an open file, starting at `offset`.
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
  std::optional<FileBody> file = {};                              // sent instead of `body`
  std::shared_ptr<LiveBody> live = {};                            // likewise, for as long as the client reads
  bool authenticated = false;  // the client has shown credentials; not sent, see ConnectionSlots

  int64_t length() const { return file ? file->length : static_cast<int64_t>(body.size()); }
  bool operator==(const Response&) const = default;
};

/// Returns a response with this status, whose name is the body.
Response StatusResponse(int status);

/// Returns false if the status is out of range or a header contains a line break.
bool CanBeSent(const Response& response);

/// Returns the bytes to send, except for a file's bytes and a live body, which ends with the connection. An
/// answer to HEAD has the body's length but no body. A response that cannot be sent becomes a 500. `keep`:
/// the connection accepts another request.
std::string ToBytes(const Response& response, bool with_body, bool keep = false);

}  // namespace mtrun::web
