// A worker's connection to the agent of its node: what it hears there, and how it speaks. A worker that has
// to wait before it is ready opens it before that, so that the agent can tell it from one that hangs.
// Training thread only.
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
  /// Says hello, as a worker that outlives generations.
  static absl::StatusOr<std::unique_ptr<AgentConnection>> Open(const WorkerEnv& worker);
  ~AgentConnection();

  /// This worker is not ready yet and waits for others; said once a second, however often it is called.
  void SayWaiting();

  const std::shared_ptr<AgentLink>& link() const { return link_; }
  const std::shared_ptr<WorkerClient>& client() const { return client_; }

 private:
  AgentConnection();

  const std::shared_ptr<AgentLink> link_;  // which the client's thread keeps, too
  std::shared_ptr<WorkerClient> client_;
  std::optional<TimePoint> waits_since_;
  TimePoint said_{};
};

}  // namespace mtrun::trainers
