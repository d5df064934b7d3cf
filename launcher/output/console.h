// The terminal or pipe for mtrun's own output. A separate writer thread keeps a blocked console (Ctrl-S, a
// full pipe) from blocking anything else. Lines wait in a queue of 4 MiB, and a console that is only slow
// delays its writers. If it accepts nothing for a second, lines are lost, and their number is printed. If a
// disk is full, output is lost until there is free space again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"

namespace mtrun::launcher {

/// What to write, as data.
struct ConsoleWrite {
  enum class Kind {
    kRaw,     // Raw
    kLines,   // Lines; Finish if `shown` is not 0
    kBegin,   // Begin
    kUpdate,  // Update
  };
  Kind kind = Kind::kLines;
  std::string text;
  size_t shown = 0;
  bool wraps = false;  // lines that are too long for a terminal are wrapped between words
  bool operator==(const ConsoleWrite&) const = default;
};

/// Methods may be called from any thread.
class Console {
 public:
  static constexpr size_t kQueueBytes = 4 << 20;
  static constexpr Duration kBlockedAfter = std::chrono::seconds(1);

  /// Writes to two descriptors, which the caller owns. They must outlive the process's last write, because a
  /// thread that hangs in a write is abandoned. `hurry` (any thread): returns whether the exit must not wait.
  Console(int out, int err, std::function<bool()> hurry = {});
  /// Calls FlushAll, and GiveUp if that fails.
  ~Console();
  Console(const Console&) = delete;

  /// Writes complete lines, in one piece if they fit into PIPE_BUF. `which`: 0 output, 1 error.
  void Lines(int which, std::string text);
  /// Like Lines, for lines whose beginning `owner` (not 0) may have shown. If that is still at the end of the
  /// screen, the first `shown` bytes are left out.
  void Finish(int which, std::string text, int64_t owner, size_t shown);
  /// Writes the beginning of a line that may not end soon (a prompt). Arguments as for Finish.
  void Begin(int which, std::string text, int64_t owner, size_t shown);
  /// Writes any bytes, unchanged.
  void Raw(int which, std::string bytes);
  bool IsTerminal(int which) const;
  /// Calls the method that `write` names.
  void Write(int which, const ConsoleWrite& write, int64_t owner = 0);
  /// Like Lines to the error stream, but never blocks: if the queue is full the text is lost.
  void Say(std::string text);
  /// Sets the status line, which stays below all other lines and is cut to the terminal's width; "" removes
  /// it. It is shown only on a terminal, and not after an unfinished line.
  void Update(int which, const std::string& text);
  /// Blocks until everything is written, at most for `timeout`; returns whether it is.
  bool Flush(Duration timeout);
  /// Blocks until everything is written. Returns false if the console is stuck or `hurry` returns true.
  bool FlushAll();
  /// Drops the unwritten output and reports that on the error stream if possible.
  void GiveUp();
  bool ShuttingDown() const;
  /// Number that grows with each successful write.
  uint64_t Progress() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace mtrun::launcher
