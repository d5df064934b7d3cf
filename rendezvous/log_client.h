// Asks the services of a job for a worker's log (mtrun --logs). Blocking calls with a deadline; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rendezvous/log_call.h"

namespace mtrun::rendezvous {

/// What the first of `endpoints` says that has the job. kFailedPrecondition: why there is nothing.
/// `answered`: the endpoint that had the job, unchanged without one.
absl::StatusOr<LogPart> ReadLogWith(const std::vector<std::string>& endpoints, bool insecure,
                                    const std::string& token, const std::string& job_id,
                                    const LogRequest& request, std::string* answered = nullptr);
/// A log that is read on and on: what to ask next, and when that is over. Time is an argument.
class LogFollower {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(500);
  /// So long a rank may be without a worker, or the job without a service.
  static constexpr Duration kPatience = std::chrono::seconds(10);

  LogFollower(int rank, const Requester& by) { next_.rank = rank, next_.by = by; }

  const LogRequest& next() const { return next_; }
  /// What to say of it, "" for nothing: the worker was started again.
  std::string OnPart(const LogPart& part, TimePoint now);
  /// Why it is over; OK to go on.
  absl::Status OnError(const absl::Status& error, TimePoint now) const;
  /// It has been answered before: the end of the job is no error.
  bool begun() const { return heard_.has_value(); }
  /// Since then.
  Duration silence(TimePoint now) const { return heard_ ? now - *heard_ : Duration::zero(); }

 private:
  LogRequest next_;
  std::optional<TimePoint> heard_;
};

}  // namespace mtrun::rendezvous
