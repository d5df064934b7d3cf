// Splits a worker's output into lines, with a limit on buffered data; and keeps the last lines. Pure.
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
    kPart,    // cut at the limit, or by the end of the stream
  };
  Kind kind = Kind::kLine;
  std::string text;  // without the line end
  size_t bytes = 0;  // bytes of the stream, including the line end
  bool operator==(const Piece&) const = default;
};

class LineSplitter {
 public:
  static constexpr size_t kDefaultBound = 64 << 10;
  explicit LineSplitter(size_t bound = kDefaultBound) : bound_(bound) {}

  /// Returns the pieces that `bytes` complete. Together with Flush they cover all bytes fed, in order.
  std::vector<Piece> Feed(std::string_view bytes);
  /// Returns the update that Feed holds back because the next byte may be a '\n'; nullopt if there is none.
  std::optional<std::string> Standing() const;
  /// Returns the rest at the end of the stream.
  std::vector<Piece> Flush();
  /// The unfinished line so far.
  std::string_view pending() const { return pending_; }

 private:
  size_t bound_;
  std::string pending_;
};

/// The last lines of a stream.
class TailBuffer {
 public:
  static constexpr size_t kLines = 20;
  static constexpr size_t kLineBytes = 500;
  void Add(std::string_view line);
  /// Returns the lines, joined by '\n'.
  std::string Text() const;

 private:
  std::deque<std::string> lines_;
};

}  // namespace mtrun::launcher
