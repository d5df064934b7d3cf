// Which service of a list has the job: asks them in order and stays with the one that does. One thread at a
// time.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/status_client.h"

namespace mtrun::rendezvous {

class JobFinder {
 public:
  using AskOne = std::function<absl::StatusOr<ServiceStatus>(const std::string& endpoint)>;

  JobFinder(std::vector<std::string> endpoints, AskOne ask)
      : endpoints_(std::move(endpoints)), ask_(std::move(ask)) {}

  /// Of the first service that may change a running job, else of one that has a job, else of one that
  /// answers. Once a job was there, none of it is an answer of the service that had it alone. An error:
  /// nobody answers, or those who do never had the job, and it may continue where nobody does.
  absl::StatusOr<ServiceStatus> Find();
  /// The service that has the job, or had it last; "" before.
  const std::string& where() const { return where_; }
  /// That one is known to have it.
  void StayWith(const std::string& endpoint) { where_ = endpoint; }
  /// The one that has the job first, the others in the order of the list.
  std::vector<std::string> InOrder() const;

 private:
  const std::vector<std::string> endpoints_;
  const AskOne ask_;
  std::string where_;
};

/// Why nobody of several answers: what each says, once, in one line. OK where there are none.
absl::Status AllErrors(const std::vector<absl::Status>& errors);

/// For who has waited for the job for so long ("12.0 s") and was not told that it has ended.
absl::Status LostJobError(const std::string& silence, const absl::Status& why);

}  // namespace mtrun::rendezvous
