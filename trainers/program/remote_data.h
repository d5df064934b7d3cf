// A run's data where --data names a server: this node's cache has it before the other workers are met. Free
// of LibTorch. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/worker_env.h"
#include "datasets/cache/set_client.h"
#include "trainers/run/options.h"

namespace mtrun::trainers {

class RemoteData {
 public:
  /// Waits for all that the run reads: of a permutation over the whole set every shard is needed from the
  /// first step on. Says once what it waits for, and when that is over. kInvalidArgument,
  /// kFailedPrecondition: no time mends it.
  static absl::StatusOr<std::unique_ptr<RemoteData>> Fetch(const TrainOptions& options,
                                                           const EnvironmentMap& environment);

  /// What PackedSplit::Open takes. Its shards are held, and stay, as long as this object lives.
  const std::string& folder() const { return client_.folder(); }
  /// How long the run has waited for its data.
  Duration waited() const { return waited_; }

 private:
  explicit RemoteData(datasets::SetRequest request) : client_(std::move(request)) {}
  absl::Status Wait(const std::string& url, int64_t cache_bytes);

  datasets::SetClient client_;
  Duration waited_{};
};

}  // namespace mtrun::trainers
