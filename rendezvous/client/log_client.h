// Asks the services of a job for a worker's log (mtrun --logs). Blocking calls with a deadline; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rendezvous/wire/log_call.h"

namespace mtrun::rendezvous {

/// Returns the answer of the first of `endpoints`, or of a service that one of them names, that has the job;
/// kFailedPrecondition if there is no output. `answered` is set to the endpoint that had the job, and
/// unchanged if none did.
absl::StatusOr<LogPart> ReadLogWith(const std::vector<std::string>& endpoints, bool insecure,
                                    const std::string& token, const std::string& job_id,
                                    const LogRequest& request, std::string* answered = nullptr);
/// Follows a log: chooses the next request, and decides when to stop. Time is an argument.
class LogFollower {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(500);
  /// How long a rank may be without a worker, or the job without a service.
  static constexpr Duration kPatience = std::chrono::seconds(10);

  LogFollower(int rank, const Requester& by) { next_.rank = rank, next_.by = by; }

  const LogRequest& next() const { return next_; }
  /// Returns a notice for the user if the worker was started again, else "".
  std::string OnPart(const LogPart& part, TimePoint now);
  /// Returns why to stop, or OK to continue.
  absl::Status OnError(const absl::Status& error, TimePoint now) const;
  /// True after the first answer: then the end of the job is not an error.
  bool begun() const { return heard_.has_value(); }
  /// Time since the last answer.
  Duration silence(TimePoint now) const { return heard_ ? now - *heard_ : Duration::zero(); }

 private:
  LogRequest next_;
  std::optional<TimePoint> heard_;
};

}  // namespace mtrun::rendezvous
