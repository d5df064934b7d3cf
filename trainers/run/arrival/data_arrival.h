// Data that a server sends while a run trains on it, in the streamed order. It is fetched in the order in
// which this worker's steps need it, awaited before each step, and released if the cache is smaller than the
// set. Does not depend on LibTorch. Used only by the training thread, which makes it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "datasets/cache/set_client.h"
#include "datasets/order/sampler.h"
#include "datasets/order/stream_order.h"
#include "datasets/packed/packed.h"
#include "trainers/parallel/partition.h"
#include "trainers/run/arrival/data_news.h"
#include "trainers/run/arrival/data_window.h"

namespace mtrun::trainers {

class DataArrival {
 public:
  /// Called several times a second during a wait. If it returns an error, the wait ends with that error.
  using Watch = std::function<absl::Status()>;
  struct Order {
    uint64_t seed = 0;
    datasets::BatchPlan plan;
    int64_t window = datasets::kStreamWindow;
    datasets::Shuffle shuffle = datasets::Shuffle::kStreams;
  };

  /// `splits` have been opened with OpenIndex; the split with training images comes first. All references
  /// must outlive this; `url` is for messages.
  DataArrival(datasets::SetClient& client, const std::string& url,
              const std::vector<datasets::PackedSplit*>& splits, const Order& order,
              const DataBounds& bounds = {});

  /// Sets this worker's `rank` and `world_size`. From now on, what its part of `step` and of the later steps
  /// needs is fetched next, in this order. If not everything can stay, what it needs last is evicted.
  absl::Status Follow(int64_t step, int rank, int world_size);
  /// Calls Follow and waits for what the first steps need; if `warm_up`, also for the first micro-batch of
  /// all. `watch` is kept until the next step's, in case images of these steps cannot be read.
  absl::Status AwaitFirst(int64_t step, int rank, int world_size, bool warm_up, const Watch& watch);
  /// Waits for the images of this worker's part of a step. If they were not checked within the last second,
  /// checks that they are unmodified. Modified files are fetched again, now or if an image cannot be read.
  absl::Status AwaitStep(int64_t step, int rank, int world_size, const Watch& watch);
  /// Waits for the first `size` images of one of the splits, and checks that they are unmodified.
  absl::Status AwaitImages(const datasets::PackedSplit& split, int64_t size, const Watch& watch);
  /// Waits for all images. REQUIRES: the cache holds all of the set.
  absl::Status AwaitAll(const Watch& watch);

  /// Returns the time waited since the last call.
  Duration TakeWaited() { return std::exchange(waited_, Duration::zero()); }

 private:
  struct File {
    std::vector<std::pair<datasets::PackedSplit*, size_t>> shards;
    int64_t bytes = 0;
    bool is_training = false;
  };
  MicroBatchRange OwnOf(int rank, int world_size) const;
  std::set<std::string> FilesOf(int64_t step, MicroBatchRange micro_batches) const;
  std::set<std::string> FirstFiles(int64_t step, int rank, int world_size) const;
  std::vector<NeededFile> InOrderOfNeed(int64_t step, int rank, int world_size) const;
  absl::Status Await(const std::set<std::string>& files, const Watch& watch);
  absl::Status AwaitHeld(const std::vector<std::string>& files, const Watch& watch);
  absl::StatusOr<bool> ReplaceDamaged(const std::set<std::string>& files, const Watch& watch);
  absl::Status CheckNowAndThen(const std::set<std::string>& files, const Watch& watch);
  absl::StatusOr<bool> Mend(const datasets::PackedSplit& split, absl::Span<const int64_t> ids);
  absl::Status Add(const std::vector<std::string>& files);
  void DropAllBut(const std::set<std::string>& keep);

  datasets::SetClient& client_;
  const std::vector<datasets::PackedSplit*> splits_;
  const Order settings_;
  const DataBounds bounds_;
  const datasets::Sampler sampler_;
  const datasets::StreamOrder order_;
  std::map<std::string, File> files_;
  std::set<std::string> missing_;
  TimePoint looked_{};                        // when Follow last ran
  std::map<std::string, TimePoint> checked_;  // when a file was last checked for damage
  Watch watch_;                               // the step's, or that of the first steps
  const std::thread::id thread_ = std::this_thread::get_id();
  DataNews news_;
  Duration waited_{};
};

}  // namespace mtrun::trainers
