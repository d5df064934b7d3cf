// Shared by tests of training in the streamed order on a set that a server sends.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "datasets/packed/index.h"
#include "tests/e2e/training.h"
#include "tests/trainers/support/encoded_set.h"

namespace mtrun::e2e {

/// 25 training shards of 4 images each, and one of the test split. With a larger `scale` a shard exceeds a
/// TLS record, so it can be observed half received.
class ArrivingRuns : public TrainingRuns {
 protected:
  static constexpr int64_t kWindow = 1;

  explicit ArrivingRuns(int scale = 1) : scale_(scale) {}
  void SetUp() override {
    data_ = trainers::testing::WriteEncodedSet(folder_.path(), "data", counts_, 40, scale_);
  }
  /// Returns the number of steps in the run's ledger, which gets a line as soon as a step is done.
  int StepsOf(const std::string& run) const {
    int steps = 0;
    for (const absl::string_view line :
         absl::StrSplit(support::ReadText(folder_.File(run) + "/ledger.jsonl"), '\n'))
      steps += absl::StartsWith(line, "{\"step\":") ? 1 : 0;
    return steps;
  }
  /// Returns the size of a cache for the test split and `shards` of the largest training shards.
  int64_t BytesOfCache(int64_t shards) const {
    const auto index = datasets::ReadIndex(data_);
    EXPECT_TRUE(index.ok()) << index.status();
    int64_t bytes = 0;
    for (const auto& shard : index->splits.at("test").shards) bytes += shard.bytes;
    return bytes + shards * LargestShard();
  }
  int64_t LargestShard() const {
    const auto index = datasets::ReadIndex(data_);
    EXPECT_TRUE(index.ok()) << index.status();
    int64_t largest = 0;
    for (const auto& shard : index->splits.at("train").shards) largest = std::max(largest, shard.bytes);
    return largest;
  }
  /// Returns the size of all shards, including partial ones.
  static int64_t BytesIn(const std::string& cache) {
    std::map<std::string, int64_t> sizes;  // a file may be renamed during the scan
    std::error_code gone;                  // or removed
    for (auto it = std::filesystem::recursive_directory_iterator(cache, gone);
         !gone && it != std::filesystem::recursive_directory_iterator(); it.increment(gone)) {
      const std::string path = it->path().string();
      std::error_code error;
      const auto size = absl::StrContains(path, "/shard_") ? it->file_size(error) : 0;
      int64_t& known = sizes[path.substr(0, path.find(".part."))];
      if (!error) known = std::max(known, static_cast<int64_t>(size));
    }
    int64_t bytes = 0;
    for (const auto& [path, size] : sizes) bytes += size;
    return bytes;
  }
  /// Returns flags for a cache of `shards` shards, of which a node fetches three before it needs them.
  std::vector<std::string> SmallCache(const std::string& folder, int64_t shards) const {
    const auto gib = [](int64_t bytes) {
      return absl::StrFormat("%.15f", static_cast<double>(bytes) / (int64_t{1} << 30));
    };
    return {"--cache",           folder,
            "--cache_gib",       gib(BytesOfCache(shards)),
            "--fetch_ahead_gib", gib(3 * LargestShard()),
            "--resident",        "off"};
  }

  const int scale_;
  const std::vector<int64_t> counts_ = std::vector<int64_t>(25, 4);  // images per shard
  const std::vector<std::string> order_ = {"--image_size", "32", "--shuffle",        "streams",
                                           "--seed",       "0",  "--shuffle_window", absl::StrCat(kWindow)};
};

}  // namespace mtrun::e2e
