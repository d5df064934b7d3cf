// Cuts a worker's output into lines, with a bound on what is held back; and keeps the last lines. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtrun::launcher {

struct Piece {
  enum class Kind {
    kLine,    // ended by '\n' or "\r\n"
    kUpdate,  // ended by '\r' alone: a progress line that will be rewritten
    kPart,    // cut at the bound, or by the end of the stream
  };
  Kind kind = Kind::kLine;
  std::string text;  // without its end
  size_t bytes = 0;  // of the stream, its end included
  bool operator==(const Piece&) const = default;
};

class LineSplitter {
 public:
  static constexpr size_t kDefaultBound = 64 << 10;
  explicit LineSplitter(size_t bound = kDefaultBound) : bound_(bound) {}

  /// The pieces that `bytes` complete; together with what Flush would give they cover all bytes fed, in
  /// order.
  std::vector<Piece> Feed(std::string_view bytes);
  /// The update that Feed holds back because the next byte may be a '\n'; nothing: it holds none.
  std::optional<std::string> Standing() const;
  /// What is left at the end of the stream.
  std::vector<Piece> Flush();
  /// The line that has begun, so far.
  std::string_view pending() const { return pending_; }

 private:
  const size_t bound_;
  std::string pending_;
};

/// The last lines of a stream.
class TailBuffer {
 public:
  static constexpr size_t kLines = 20;
  static constexpr size_t kLineBytes = 500;
  void Add(std::string_view line);
  /// Joined by '\n'.
  std::string Text() const;

 private:
  std::deque<std::string> lines_;
};

}  // namespace mtrun::launcher
