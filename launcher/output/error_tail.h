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
  struct Traceback {
    int64_t at_ns = 0;     // its first line
    bool is_last = false;  // nothing came later than a second after that: the worker may be on its way out
  };
  /// The last one of Python's.
  std::optional<Traceback> traceback() const;

 private:
  TailBuffer lines_;
  std::optional<int64_t> traceback_at_;
  int64_t last_ns_ = 0;
};

}  // namespace mtrun::launcher
