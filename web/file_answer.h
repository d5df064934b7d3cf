// Builds the answer to a request for a file: whole, partial or unchanged (RFC 9110). Pure.
#pragma once

#include <cstdint>
#include <string>

#include "web/message.h"

namespace mtrun::web {

/// Properties of a file when it was opened.
struct FileFacts {
  int64_t size = 0;
  int64_t inode = 0;
  int64_t changed_ns = 0;  // since 1970
  bool operator==(const FileFacts&) const = default;
};

/// Returns a strong entity tag, which changes if the file is rewritten.
std::string EntityTag(const FileFacts& facts);

/// Returns the head and the range of bytes to send (none if `file` is missing; `file.fd` is not set). Handles
/// GET and HEAD alike, with If-None-Match, If-Range and Range.
Response AnswerFile(const Request& request, const FileFacts& facts, const std::string& content_type);

}  // namespace mtrun::web
