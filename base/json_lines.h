// Splits a byte stream into newline-terminated messages of bounded length.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mtrun {

/// Collects bytes and returns complete lines; one over `max_line` is a permanent error. Not thread-safe.
class LineBuffer {
 public:
  static constexpr size_t kDefaultMaxLine = 16 << 20;
  explicit LineBuffer(size_t max_line = kDefaultMaxLine) : max_line_(max_line) {}

  /// Adds bytes. kInvalidArgument if a line exceeds the bound; the connection should then be closed.
  absl::Status Append(std::string_view bytes);
  /// Returns the next complete line without its '\n', or nothing.
  std::optional<std::string> Next();

 private:
  const size_t max_line_;
  std::string pending_;
  size_t start_ = 0;
};

}  // namespace mtrun
