// The bootstrap of workers that mtrun started: the generation's key-value space, reached through the agent.
#pragma once

#include <memory>
#include <utility>

#include "base/worker_client.h"
#include "trainers/collectives/bootstrap.h"

namespace mtrun::collectives {

/// Thread-safe, like WorkerClient. Abort() stays in effect until the client's ResetAbort().
class AgentStore : public Bootstrap {
 public:
  /// Keeps `client` alive, because an abandoned connect may still use it after its caller is gone.
  explicit AgentStore(std::shared_ptr<WorkerClient> client) : client_(std::move(client)) {}
  absl::Status Set(std::string_view key, std::string_view value) override { return client_->Set(key, value); }
  absl::StatusOr<std::map<std::string, std::string>> Wait(const std::vector<std::string>& keys) override {
    return client_->Wait(keys);
  }
  void Abort(std::string_view why) override { client_->Abort(why); }

 private:
  const std::shared_ptr<WorkerClient> client_;
};

}  // namespace mtrun::collectives
