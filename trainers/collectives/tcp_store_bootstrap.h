// The bootstrap of workers that mtrun did not start (torchrun, Slurm, by hand): PyTorch's own TCPStore at
// MASTER_ADDR:MASTER_PORT.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "trainers/collectives/bootstrap.h"

namespace mtrun::collectives {

/// Thread-safe.
class StoreBootstrap : public Bootstrap {
 public:
  /// Wait fails with kDeadlineExceeded, which lists the keys, after `timeout`.
  explicit StoreBootstrap(c10::intrusive_ptr<c10d::Store> store,
                          std::chrono::seconds timeout = std::chrono::minutes(10));
  absl::Status Set(std::string_view key, std::string_view value) override;
  absl::StatusOr<std::map<std::string, std::string>> Wait(const std::vector<std::string>& keys) override;
  void Abort(std::string_view why) override;

 private:
  absl::StatusOr<bool> AllThere(const std::vector<std::string>& keys);
  absl::StatusOr<std::map<std::string, std::string>> Read(const std::vector<std::string>& keys);

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::chrono::seconds timeout_;
  Mutex mu_;
  Condition aborted_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

/// Connects to the store at `host`:`port`; kUnavailable names both. Rank 0 serves it, unless torchrun's agent
/// does (`agent_serves`, TORCHELASTIC_USE_AGENT_STORE).
absl::StatusOr<std::shared_ptr<Bootstrap>> ConnectTcpStore(
    const std::string& host, int port, int rank, int world_size, bool agent_serves,
    std::chrono::seconds timeout = std::chrono::minutes(10));

}  // namespace mtrun::collectives
