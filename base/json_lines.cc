#include "base/json_lines.h"

#include "absl/strings/str_cat.h"

namespace mtrun {

absl::Status LineBuffer::Append(std::string_view bytes) {
  pending_.erase(0, start_);
  start_ = 0;
  pending_.append(bytes);
  // Only the unfinished tail counts, because complete lines wait for Next().
  const size_t last = pending_.rfind('\n');
  const size_t tail = last == std::string::npos ? pending_.size() : pending_.size() - last - 1;
  if (tail > max_line_) {
    return absl::InvalidArgumentError(absl::StrCat("a message is longer than ", max_line_, " bytes"));
  }
  return absl::OkStatus();
}

std::optional<std::string> LineBuffer::Next() {
  const size_t end = pending_.find('\n', start_);
  if (end == std::string::npos) return std::nullopt;
  std::string line = pending_.substr(start_, end - start_);
  start_ = end + 1;
  return line;
}

}  // namespace mtrun
