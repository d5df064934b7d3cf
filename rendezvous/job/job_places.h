// The jobs that other services have, for clients that ask the one at a job's endpoint. It hands a job over,
// and after a takeover the service of the job names itself several times a second. Pure: time is an argument;
// not thread-safe.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"

namespace mtrun::rendezvous {

class JobPlaces {
 public:
  /// How long a service counts after it has named itself.
  static constexpr Duration kFresh = std::chrono::seconds(10);
  static constexpr size_t kMaxPlaces = 1024;

  /// Notes that the service at `endpoint` was named as that of the job. One without authority does not
  /// replace another one that has it.
  void OnNamed(const std::string& job_id, const std::string& endpoint, bool authority, TimePoint now);
  /// Returns the endpoints of the jobs' services by job.
  std::map<std::string, std::string> All(TimePoint now) const;
  /// Returns the endpoint of the job's service, "" if it is unknown. `job_id` "": of the only job.
  std::string Of(const std::string& job_id, TimePoint now) const;
  /// Returns the error of a service that does not have the job `job_id`, with the places that are known.
  std::string Explain(const absl::Status& missing, const std::string& job_id, TimePoint now) const;

 private:
  struct Place {
    std::string endpoint;
    bool authority = false;
    TimePoint named;
  };
  std::map<std::string, Place> places_;  // by job
};

}  // namespace mtrun::rendezvous
