// Asks the services of a job for all that people see of it, again and again. Blocking; one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/node_use.h"
#include "rendezvous/status_client.h"

namespace mtrun::rendezvous {

struct WatchedState {
  ServiceStatus status;
  std::vector<WatchedNode> nodes;
  std::vector<Happening> happenings;                // oldest first
  std::vector<std::pair<JobView, Duration>> ended;  // known no more; since when
};

class WatchClient {
 public:
  /// `token` "" with `insecure`.
  WatchClient(bool insecure, std::string token);
  ~WatchClient();

  /// Of the first of `endpoints` that has a job, else of the first that answers; the one that did the last
  /// time is asked first. kUnavailable, kUnauthenticated: none does within 2 s each.
  absl::StatusOr<WatchedState> Ask(const std::vector<std::string>& endpoints);

 private:
  struct Channel;
  absl::StatusOr<WatchedState> AskOne(const std::string& endpoint);

  const bool insecure_;
  const std::string token_;
  std::unique_ptr<Channel> channel_;  // kept open
};

}  // namespace mtrun::rendezvous
