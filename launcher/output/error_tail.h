// What a worker wrote to standard error last. Pure; time is an argument.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/output/line_splitter.h"

namespace mtrun::launcher {

class ErrorTail {
 public:
  /// `now_ns`: wall clock, nanoseconds since 1970.
  void Add(const std::vector<Piece>& pieces, int64_t now_ns);
  std::string Text() const { return lines_.Text(); }
  /// When the last line came that begins a traceback of Python.
  std::optional<int64_t> traceback_at() const { return traceback_at_; }

 private:
  TailBuffer lines_;
  std::optional<int64_t> traceback_at_;
};

}  // namespace mtrun::launcher
