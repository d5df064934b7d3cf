#include "web/file_answer.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/value_or.h"
#include "web/byte_range.h"

namespace mtrun::web {
namespace {

/// Returns whether a list of entity tags contains this one; weak comparison is enough here.
bool Names(const std::string& list, const std::string& tag) {
  for (const absl::string_view part : absl::StrSplit(list, ',')) {
    absl::string_view one = absl::StripAsciiWhitespace(part);
    if (one == "*" || one == tag || one == "W/" + tag) return true;
  }
  return false;
}

}  // namespace

std::string EntityTag(const FileFacts& facts) {
  return absl::StrFormat("\"%x-%x-%x\"", facts.inode, facts.size, facts.changed_ns);
}

Response AnswerFile(const Request& request, const FileFacts& facts, const std::string& content_type) {
  const std::string tag = EntityTag(facts);
  Response response{.content_type = content_type, .headers = {{"ETag", tag}, {"Accept-Ranges", "bytes"}}};
  if (Names(ValueOr(request.headers, "if-none-match"), tag)) {
    response.status = 304;
    return response;
  }
  const std::string only_of = ValueOr(request.headers, "if-range");
  const bool ranged = only_of.empty() || only_of == tag;
  const ByteRange range = SelectRange(ranged ? ValueOr(request.headers, "range") : "", facts.size);
  if (range.kind == ByteRange::Kind::kImpossible) {
    Response refused = StatusResponse(416);
    refused.headers = {{"Content-Range", absl::StrCat("bytes */", facts.size)}};
    return refused;
  }
  response.file = FileBody{.fd = nullptr, .offset = range.offset, .length = range.length};
  if (range.kind == ByteRange::Kind::kPart) {
    response.status = 206;
    response.headers.emplace_back(
        "Content-Range",
        absl::StrCat("bytes ", range.offset, "-", range.offset + range.length - 1, "/", facts.size));
  }
  return response;
}

}  // namespace mtrun::web
