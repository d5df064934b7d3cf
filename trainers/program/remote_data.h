// A run's data where --data names a server: this node's cache has it before the other workers are met, or, in
// the streamed order, what the first steps need of it. Free of LibTorch. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/worker_env.h"
#include "datasets/cache/set_client.h"
#include "datasets/packed.h"
#include "trainers/run/data_arrival.h"
#include "trainers/run/data_news.h"
#include "trainers/run/data_window.h"
#include "trainers/run/options.h"

namespace mtrun::trainers {

class RemoteData {
 public:
  /// Waits for the index. Says once what it waits for, and when that is over. kInvalidArgument,
  /// kFailedPrecondition: no time mends it.
  /// `workers`: of this node, which share what it fetches ahead and keeps. `still_here` is called again and
  /// again while Open and AwaitAll wait: who waits is not hung.
  static absl::StatusOr<std::unique_ptr<RemoteData>> Open(const TrainOptions& options,
                                                          const EnvironmentMap& environment, int workers,
                                                          std::function<void()> still_here);

  /// What PackedSplit takes. Shards that were waited for are held, and stay, as long as this object lives.
  const std::string& folder() const { return client_.folder(); }
  /// The cache has room for all of the set at a time.
  bool keeps_all() const { return bounds_.keeps_all(); }
  /// Waits for every shard: of a permutation over the whole set each is needed from the first steps on.
  absl::Status AwaitAll();
  /// The shards of these splits come while the run trains. The splits must outlive this object's use.
  DataArrival& Begin(const std::vector<datasets::PackedSplit*>& splits, const TrainOptions& options);
  /// How long Open and AwaitAll have waited.
  Duration waited() const { return waited_; }

 private:
  RemoteData(const std::string& url, datasets::SetRequest request, std::function<void()> still_here)
      : url_(url), still_here_(std::move(still_here)), client_(std::move(request)), news_(url) {}
  absl::Status OpenIndex(const DataNeeds& needs);
  datasets::SetClient::Watch Watch();

  const std::string url_;
  const std::function<void()> still_here_;
  datasets::SetClient client_;
  DataNews news_;
  DataBounds bounds_;
  std::optional<DataArrival> arrival_;
  Duration waited_{};
};

/// Whether the order of samples and the settings let a run begin before all of its data is here.
bool TrainsWhileDataComes(const TrainOptions& options);

}  // namespace mtrun::trainers
