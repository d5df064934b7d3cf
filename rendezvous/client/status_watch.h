// Polls a status (mtrun --status --watch): decides on the output for each answer, and when to stop. Time is
// an argument; not thread-safe.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "rendezvous/client/status_client.h"

namespace mtrun::rendezvous {

class StatusWatch {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(500);  // between two requests
  /// How long a service that has answered may be away until it is restarted or another one takes over. A
  /// service that is younger than this may not have learned of its job yet.
  static constexpr Duration kPatience = std::chrono::seconds(10);

  /// `json`: one object a line. `rows`: height of the terminal, which shows the newest status in place, with
  /// its ages; 0 for none: then a status is printed if more than ages has changed.
  StatusWatch(bool json, int rows) : json_(json), rows_(rows) {}

  /// Returns what to print, "" for nothing.
  std::string OnAnswer(const ServiceStatus& status, TimePoint now);
  /// Handles the lack of an answer from a service that has the job. Returns OK to continue, else why the
  /// watch is over although the job is not known to have ended.
  absl::Status OnSilence(const absl::Status& why, TimePoint now) const;
  /// True if the jobs that were there have ended.
  bool over() const { return over_; }

 private:
  // Constant after construction.
  bool json_;
  int rows_;

  std::optional<TimePoint> answered_;
  std::string printed_;         // the last status, without ages
  std::set<std::string> jobs_;  // jobs that were there
  bool over_ = false;
};

/// Returns `text` with codes to overwrite the terminal, at most `rows` lines; `first`: clears it first.
std::string Redrawn(const std::string& text, int rows, bool first);

}  // namespace mtrun::rendezvous
