// Shows one host's output on the console: lines prefixed with its name, or unchanged bytes for a single host.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "launcher/output/console.h"
#include "launcher/output/stream_output.h"
#include "launcher/ssh/failure_boxes.h"

namespace mtrun::launcher {

class HostStreams {
 public:
  /// `prefix`: "node1: "; "" passes bytes unchanged. `boxes`: filter of its standard error. `host`: its
  /// index.
  HostStreams(std::string prefix, std::shared_ptr<Console> console, FailureBoxes boxes, size_t host);

  /// `which`: 0 output, 1 error.
  void Show(int which, std::string_view bytes, TimePoint now);
  /// Shows the rest of unfinished lines.
  void Finish(TimePoint now);
  /// Returns when OnTime is due, if it is.
  std::optional<TimePoint> Due() const;
  /// Shows unfinished lines that have waited for long enough.
  void OnTime(TimePoint now);

 private:
  void Perform(int which, const StreamWrites& writes);
  void ShowErrorLines(std::string_view lines);

  const std::string prefix_;
  const std::shared_ptr<Console> console_;
  FailureBoxes boxes_;
  const int64_t owner_;
  StreamOutput outputs_[2];
  TimePoint quiet_since_ = {};
};

}  // namespace mtrun::launcher
