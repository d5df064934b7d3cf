// The terminal or pipe that mtrun's own output goes to. A thread of its own writes, so that a console that
// is blocked (Ctrl-S, a full pipe) holds up nothing: lines wait in a queue of 4 MiB, a console that is only
// slow holds its writers up, and one that takes nothing for a second loses lines, which are counted and said.
// A disk that is full costs what comes until it has room again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace mtrun::launcher {

/// Methods may be called from any thread.
class Console {
 public:
  static constexpr size_t kQueueBytes = 4 << 20;
  static constexpr Duration kBlockedAfter = std::chrono::seconds(1);

  /// Writes to two descriptors, which stay the caller's and must outlive the process's last write: a thread
  /// that hangs in a write is given up. `hurry` (any thread): whether the end may wait no more.
  Console(int out, int err, std::function<bool()> hurry = {});
  /// FlushAll, else GiveUp.
  ~Console();
  Console(const Console&) = delete;

  /// Whole lines, each ended, in one piece as far as PIPE_BUF allows. `which`: 0 output, 1 error.
  void Lines(int which, std::string text);
  /// The same for lines of which `owner` (not 0) may have shown the beginning: where that still stands at the
  /// end of the screen, the first `shown` bytes are left out.
  void Finish(int which, std::string text, int64_t owner, size_t shown);
  /// The beginning of a line that may not end soon, a prompt; likewise.
  void Begin(int which, std::string text, int64_t owner, size_t shown);
  /// Any bytes, unchanged.
  void Raw(int which, std::string bytes);
  bool IsTerminal(int which) const;
  /// A line for people, without its end: on a terminal it is broken between words where it is too long.
  std::string Fit(int which, const std::string& line) const;
  /// As Lines to the error stream, but never waits: a full queue loses it.
  void Say(std::string text);
  /// The line that stays below all others until the next one takes its place, cut to the terminal's width;
  /// shown only on a terminal, and not behind a line that has not ended. "": there is none any more.
  void Update(int which, const std::string& text);
  /// Waits until everything is written, at most `patience`; false when it is not.
  bool Flush(Duration patience);
  /// Waits until everything is written, for as long as the console takes something now and then and there is
  /// no hurry; false when it is not.
  bool FlushAll();
  /// Drops what is not written yet and says so on the error stream, where that takes something.
  void GiveUp();
  bool InAHurry() const;
  /// Grows with each write that went well.
  uint64_t Progress() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace mtrun::launcher
