// Polls the services of a job for the full state shown to people. Blocking; one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/client/status_client.h"
#include "rendezvous/wire/node_use.h"

namespace mtrun::rendezvous {

struct WatchedState {
  ServiceStatus status;
  std::vector<WatchedNode> nodes;
  std::vector<Happening> happenings;                // oldest first
  std::vector<std::pair<JobView, Duration>> ended;  // not known any more; with the time since the end
};

class WatchClient {
 public:
  /// `token`: "" with `insecure`.
  WatchClient(bool insecure, std::string token);
  ~WatchClient();

  /// Returns the answer of the first of `endpoints`, or of a service that one of them names, that has a job,
  /// else of the first that answers; starts with the one that answered last. kUnavailable, kUnauthenticated:
  /// none answers within 2 s each.
  absl::StatusOr<WatchedState> Ask(const std::vector<std::string>& endpoints);

 private:
  struct Channel;
  absl::StatusOr<WatchedState> AskOne(const std::string& endpoint);

  const bool insecure_;
  const std::string token_;
  std::unique_ptr<Channel> channel_;  // kept open between requests
};

}  // namespace mtrun::rendezvous
