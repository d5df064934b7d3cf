// The bootstrap of workers that mtrun started: the key-value space of the generation, through the node's
// agent.
#pragma once

#include "base/worker_client.h"
#include "trainers/collectives/bootstrap.h"

namespace mtrun::collectives {

/// Thread-safe, as WorkerClient is. `client` must outlive it. Abort() holds until the client's ResetAbort().
class AgentStore : public Bootstrap {
 public:
  explicit AgentStore(WorkerClient& client) : client_(client) {}
  absl::Status Set(std::string_view key, std::string_view value) override;
  absl::StatusOr<std::map<std::string, std::string>> Wait(const std::vector<std::string>& keys) override;
  void Abort(std::string_view why) override;

 private:
  WorkerClient& client_;
};

}  // namespace mtrun::collectives
