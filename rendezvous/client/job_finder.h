// Finds the service that has the job: asks those of a list in order, and those that they name, and stays with
// it. One thread at a time.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/client/status_client.h"

namespace mtrun::rendezvous {

class JobFinder {
 public:
  using AskOne = std::function<absl::StatusOr<ServiceStatus>(const std::string& endpoint)>;

  JobFinder(std::vector<std::string> endpoints, AskOne ask)
      : endpoints_(std::move(endpoints)), ask_(std::move(ask)) {}

  /// Returns the status of the first service that may change a running job, else of one that has a job, else
  /// of one that answers. After a job was found, "no job" counts only from the service that had it. Returns
  /// an error if no service answers, or if only others than that service answer, without the job: it may
  /// continue elsewhere. Jobs that it names as elsewhere could not be followed, or were not asked for.
  absl::StatusOr<ServiceStatus> Find();
  /// The service that has the job, or had it last; "" before.
  const std::string& where() const { return where_; }
  /// Notes that the service at `endpoint` is known to have the job.
  void StayWith(const std::string& endpoint) { where_ = endpoint; }
  /// Returns the service that has the job, which may not be of the list, then the others in its order.
  std::vector<std::string> InOrder() const;

 private:
  const std::vector<std::string> endpoints_;
  const AskOne ask_;
  std::string where_;
};

/// Combines the errors of several services, each once, in one line. Returns OK if there are none.
absl::Status AllErrors(const std::vector<absl::Status>& errors);

/// Returns the error for a client that waited for `silence` ("12.0 s") and was not told of the job's end.
absl::Status LostJobError(const std::string& silence, const absl::Status& why);

}  // namespace mtrun::rendezvous
