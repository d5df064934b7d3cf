// The last lines of a worker's standard error. Pure; time is an argument.
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
  struct Traceback {
    int64_t at_ns = 0;     // time of its first line
    bool is_last = false;  // no later output than a second afterwards: the worker may be exiting
  };
  /// Returns the last Python traceback.
  std::optional<Traceback> traceback() const;

 private:
  TailBuffer lines_;
  std::optional<int64_t> traceback_at_;
  int64_t last_ns_ = 0;
};

}  // namespace mtrun::launcher
