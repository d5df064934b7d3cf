// Decides what to write where for one stream of a worker: bytes and times in; text for the log files, the
// tail and the console out. Pure. However the bytes are split, the lines are the same.
//
// A terminal shows an update, and the beginning of a line, in place. A file or a pipe cannot. There the
// unfinished line appears as a line of its own every 2 s unless complete lines do: an update as it is, a
// growing line with what is new. The complete line follows, unless it has appeared already.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "launcher/output/console.h"
#include "launcher/output/line_splitter.h"

namespace mtrun::launcher {

struct StreamWrites {
  std::string file, filtered;  // text to append to the stream's log, and to that of matching lines
  std::vector<Piece> tail;     // for the tail of standard error
  std::vector<ConsoleWrite> console;
};

struct StreamRules {
  int which = 0;                          // 0 output, 1 error
  std::string prefix;                     // of each line
  std::vector<std::string> filters = {};  // lines with one of these texts are also kept apart
  bool to_console = true;
  bool raw = false;            // to the console unchanged
  bool breaks_lines = false;   // wrap long lines on a terminal
  bool thins_updates = false;  // the file gets an update now and then, as a line
  bool on_terminal = false;    // the console is a terminal
};

class StreamOutput {
 public:
  static constexpr Duration kKeepUpdateEvery = std::chrono::seconds(5);
  static constexpr Duration kPromptAfter = std::chrono::milliseconds(150);
  static constexpr Duration kShowUnfinishedEvery = std::chrono::seconds(2);
  static constexpr Duration kLineMayEnd = std::chrono::milliseconds(200);  // before it counts as unfinished

  explicit StreamOutput(StreamRules rules) : rules_(std::move(rules)) {}

  StreamWrites OnBytes(std::string_view bytes, TimePoint now);
  StreamWrites OnEnd(TimePoint now);
  /// Returns when OnTime may have something to write; nullopt: not before more bytes arrive. `quiet_since`:
  /// the arrival of the last bytes of any stream.
  std::optional<TimePoint> Due(TimePoint quiet_since) const;
  StreamWrites OnTime(TimePoint now, TimePoint quiet_since);

 private:
  bool ShowsLines() const { return rules_.to_console && !rules_.raw; }
  bool WantsLines() const;
  bool Matches(const std::string& line) const;
  /// Returns whether a line has begun that the terminal does not show yet.
  bool HasPrompt() const;
  /// Returns the unfinished line.
  std::string Unfinished() const { return splitter_.Standing().value_or(std::string(splitter_.pending())); }
  bool ShowsUnfinished() const { return ShowsLines() && !rules_.on_terminal; }
  void AwaitUnfinished(TimePoint now);
  void AddUnfinished(TimePoint now, StreamWrites* writes);
  void AddPrompt(StreamWrites* writes);
  void AddPieces(std::vector<Piece> pieces, TimePoint now, StreamWrites* writes);
  void AddLine(const std::string& text, size_t shown, TimePoint now, StreamWrites* writes);
  /// Adds a line unless it has appeared already.
  void AddWholeLine(const std::string& text, size_t shown, TimePoint now, StreamWrites* writes);
  void AddConsoleLine(const std::string& text, size_t shown, StreamWrites* writes) const;
  void AddUpdate(const std::string& text, StreamWrites* writes);
  std::string TextWithFewUpdates(const std::vector<Piece>& pieces, TimePoint now);

  StreamRules rules_;
  LineSplitter splitter_ = LineSplitter();
  size_t shown_ = 0;            // bytes on the console that belong to the unfinished line
  bool rewrites_ = false;       // the unfinished line replaces an update: it is the next one
  bool update_stands_ = false;  // its update is the console's status line
  TimePoint update_kept_ = {};  // when an update was last written to the file

  // Used if the console is not a terminal:
  TimePoint line_at_ = {};                     // of the last line
  std::optional<TimePoint> unfinished_since_;  // age of the unfinished text that has not appeared
  std::string appeared_;                       // the unfinished line when it last appeared
  bool grows_ = false;                         // appeared_ is the beginning of the unfinished line
  bool in_parts_ = false;                      // appeared_ takes more than one line
};

}  // namespace mtrun::launcher
