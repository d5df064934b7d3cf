// A run's data if --data names a server. This node's cache has all of it before the worker joins the others
// or, in the streamed order, the part that the first steps need. Independent of LibTorch. Not thread-safe.
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
#include "datasets/packed/packed.h"
#include "trainers/run/arrival/data_arrival.h"
#include "trainers/run/arrival/data_news.h"
#include "trainers/run/arrival/data_window.h"
#include "trainers/run/rules/options.h"

namespace mtrun::trainers {

class RemoteData {
 public:
  /// Waits for the index, and logs once what it waits for and when the wait is over. kInvalidArgument and
  /// kFailedPrecondition are permanent. `workers`: workers of this node, which share the budgets for fetching
  /// ahead and for the cache. `still_here` is called repeatedly during waits, to show that this worker is not
  /// hung.
  static absl::StatusOr<std::unique_ptr<RemoteData>> Open(const TrainOptions& options,
                                                          const EnvironmentMap& environment, int workers,
                                                          std::function<void()> still_here);

  /// Returns the folder for PackedSplit. Shards that were waited for stay in it while this object exists.
  const std::string& folder() const { return client_.folder(); }
  /// Returns whether the cache has room for the whole set at once.
  bool keeps_all() const { return bounds_.keeps_all(); }
  /// Waits for every shard, because a permutation of the whole set needs each of them from the start.
  absl::Status AwaitAll();
  /// Fetches the shards of these splits during training. The splits must outlive their use here.
  DataArrival& Begin(const std::vector<datasets::PackedSplit*>& splits, const TrainOptions& options);
  /// Returns how long Open and AwaitAll have waited.
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

/// Returns whether order and settings let a run begin before all of its data has arrived.
bool TrainsWhileDataComes(const TrainOptions& options);

}  // namespace mtrun::trainers
