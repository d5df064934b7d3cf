// What a request for a file is answered: whole, a part, unchanged (RFC 9110). Pure.
#pragma once

#include <cstdint>
#include <string>

#include "web/message.h"

namespace mtrun::web {

/// A file as it was opened.
struct FileFacts {
  int64_t size = 0;
  int64_t inode = 0;
  int64_t changed_ns = 0;  // since 1970
  bool operator==(const FileFacts&) const = default;
};

/// A strong one: a file that was written again has another.
std::string EntityTag(const FileFacts& facts);

/// The answer's head and which bytes follow: `file.offset` and `file.length` are set and `file.fd` is not;
/// without `file` nothing follows. GET and HEAD alike, by If-None-Match, If-Range and Range.
Response AnswerFile(const Request& request, const FileFacts& facts, const std::string& content_type);

}  // namespace mtrun::web
