// Data that a server sends while a run trains on it, in the streamed order: fetched as this worker's steps
// need it, waited for before them, and given back where the cache is smaller than the set. Free of LibTorch.
// Training thread only: the one that makes it.
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
#include "datasets/packed.h"
#include "datasets/sampler.h"
#include "datasets/stream_order.h"
#include "trainers/parallel/partition.h"
#include "trainers/run/data_news.h"
#include "trainers/run/data_window.h"

namespace mtrun::trainers {

class DataArrival {
 public:
  /// Called several times a second while something is waited for; an error ends the wait with it.
  using Watch = std::function<absl::Status()>;
  struct Order {
    uint64_t seed = 0;
    datasets::BatchPlan plan;
    int64_t window = datasets::kStreamWindow;
    datasets::Shuffle shuffle = datasets::Shuffle::kStreams;
  };

  /// `splits`: opened by their index, those with training images first. All references must outlive this;
  /// `url` is for messages.
  DataArrival(datasets::SetClient& client, const std::string& url,
              const std::vector<datasets::PackedSplit*>& splits, const Order& order,
              const DataBounds& bounds = {});

  /// From now on this worker has `rank` in a world of `world_size`: what its part of `step` and of the steps
  /// after it needs is fetched next, in this order. What it needs last goes where not all may stay.
  absl::Status Follow(int64_t step, int rank, int world_size);
  /// Follow, and waits for what the first steps need. `warm_up`: so does one before them, on the first
  /// micro-batch of all. `watch` is kept until the next step's, for images of theirs that cannot be read.
  absl::Status AwaitFirst(int64_t step, int rank, int world_size, bool warm_up, const Watch& watch);
  /// Until the images of this worker's part of a step are there; at once where they are. Whether they still
  /// are as they came, too, where that was not looked at within the last second: what somebody has written to
  /// is fetched again, here and where an image of the step cannot be read.
  absl::Status AwaitStep(int64_t step, int rank, int world_size, const Watch& watch);
  /// Until the first `size` images of one of the splits are, as they came.
  absl::Status AwaitImages(const datasets::PackedSplit& split, int64_t size, const Watch& watch);
  /// Until all are. REQUIRES: the cache holds all of the set.
  absl::Status AwaitAll(const Watch& watch);

  /// What has been waited for since this was asked last.
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
  TimePoint looked_{};                        // at what is needed next
  std::map<std::string, TimePoint> checked_;  // when a file was looked at for damage
  Watch watch_;                               // of the step, or of those before the first one
  const std::thread::id thread_ = std::this_thread::get_id();
  DataNews news_;
  Duration waited_{};
};

}  // namespace mtrun::trainers
