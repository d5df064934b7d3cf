// A status that is asked for again and again (mtrun --status --watch): what to print of each answer, and when
// that is over. Time is an argument; not thread-safe.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "rendezvous/status_client.h"

namespace mtrun::rendezvous {

class StatusWatch {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(500);  // between two questions
  /// So long a service that has answered before may be away: it is started again, or another one takes over.
  /// One that has been there for less may not have heard of its job yet.
  static constexpr Duration kPatience = std::chrono::seconds(10);

  /// `json`: an object a line. `rows`: of the terminal, which shows the newest status in place, with its
  /// ages; 0 for none: a status is printed when more than ages has changed.
  StatusWatch(bool json, int rows) : json_(json), rows_(rows) {}

  /// What to print, "" for nothing.
  std::string OnAnswer(const ServiceStatus& status, TimePoint now);
  /// No service that has the job answered. OK to go on; else why the watch is over, although nobody has said
  /// that the job is.
  absl::Status OnSilence(const absl::Status& why, TimePoint now) const;
  /// The jobs that were there have ended.
  bool over() const { return over_; }

 private:
  // Constant after construction.
  bool json_;
  int rows_;

  std::optional<TimePoint> answered_;
  std::string printed_;         // without ages
  std::set<std::string> jobs_;  // that were there
  bool over_ = false;
};

/// `text` over what a terminal shows, at most `rows` lines of it. `first`: what was there before goes.
std::string Redrawn(const std::string& text, int rows, bool first);

}  // namespace mtrun::rendezvous
