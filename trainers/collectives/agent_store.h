// The bootstrap of workers that mtrun started: the key-value space of the generation, through the node's
// agent.
#pragma once

#include <memory>
#include <utility>

#include "base/worker_client.h"
#include "trainers/collectives/bootstrap.h"

namespace mtrun::collectives {

/// Thread-safe, as WorkerClient is. Abort() holds until the client's ResetAbort().
class AgentStore : public Bootstrap {
 public:
  /// `client`: kept, since a connect that was given up may still be inside when whoever made it is gone.
  explicit AgentStore(std::shared_ptr<WorkerClient> client) : client_(std::move(client)) {}
  absl::Status Set(std::string_view key, std::string_view value) override;
  absl::StatusOr<std::map<std::string, std::string>> Wait(const std::vector<std::string>& keys) override;
  void Abort(std::string_view why) override;

 private:
  const std::shared_ptr<WorkerClient> client_;
};

}  // namespace mtrun::collectives
