// Newline-framed messages over a byte stream: bytes in, whole lines out, with a bound on how long a line may
// be.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mtrun {

/// Collects bytes and hands out complete lines. Not thread-safe. A line over `max_line` bytes is an error
/// that stays.
class LineBuffer {
 public:
  static constexpr size_t kDefaultMaxLine = 16 << 20;
  explicit LineBuffer(size_t max_line = kDefaultMaxLine) : max_line_(max_line) {}

  /// kInvalidArgument once a line grows beyond the bound; the connection should then be closed.
  absl::Status Append(std::string_view bytes);
  /// Next complete line without its '\n', or nothing.
  std::optional<std::string> Next();

 private:
  const size_t max_line_;
  std::string pending_;
  size_t start_ = 0;
};

}  // namespace mtrun
