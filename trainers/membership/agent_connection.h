// A worker's connection to the agent of its node. If a worker has to wait before it is ready, it opens the
// connection first, so that the agent can tell it from one that hangs. Training thread only.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/worker_client.h"
#include "base/worker_env.h"

namespace mtrun::trainers {

class AgentLink;

class AgentConnection {
 public:
  /// Connects and says hello as a worker that survives a change of generation.
  static absl::StatusOr<std::unique_ptr<AgentConnection>> Open(const WorkerEnv& worker);
  ~AgentConnection();

  /// Reports that this worker is not ready yet and waits for others. Sends at most once a second.
  void SayWaiting();

  const std::shared_ptr<AgentLink>& link() const { return link_; }
  const std::shared_ptr<WorkerClient>& client() const { return client_; }

 private:
  AgentConnection();

  const std::shared_ptr<AgentLink> link_;  // also kept by the client's thread
  std::shared_ptr<WorkerClient> client_;
  std::optional<TimePoint> waits_since_;
  TimePoint said_{};
};

}  // namespace mtrun::trainers
