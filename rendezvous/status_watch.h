// A status that is asked for again and again (mtrun --status --watch): what to print of each answer, and when
// that is over. Time is an argument; not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "rendezvous/status_client.h"

namespace mtrun::rendezvous {

class StatusWatch {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(500);  // between two questions
  /// So long a service that has answered before may be away: it is started again, or has ended with its job.
  static constexpr Duration kPatience = std::chrono::seconds(3);

  /// `json`: an object a line. `rows`: of the terminal, which shows the newest status in place, with its
  /// ages; 0 for none: a status is printed when more than ages has changed.
  StatusWatch(bool json, int rows) : json_(json), rows_(rows) {}

  /// What to print, "" for nothing.
  std::string OnAnswer(const ServiceStatus& status, TimePoint now);
  /// The service did not answer. The sentence that ends the watch, "" to go on; an error where it never has
  /// answered.
  absl::StatusOr<std::string> OnSilence(const absl::Status& why, TimePoint now);
  /// The jobs that were there have ended.
  bool over() const { return over_; }

 private:
  // Constant after construction.
  bool json_;
  int rows_;

  std::optional<TimePoint> answered_;
  std::string printed_;  // without ages
  bool had_job_ = false, over_ = false;
};

/// `text` over what a terminal shows, at most `rows` lines of it. `first`: what was there before goes.
std::string Redrawn(const std::string& text, int rows, bool first);

}  // namespace mtrun::rendezvous
