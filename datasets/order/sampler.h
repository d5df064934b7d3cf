// Selects a step's samples by (seed, epoch, step, micro-batch) only, independent of the cluster. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/order/batch_plan.h"
#include "datasets/order/stream_order.h"

namespace mtrun::datasets {

/// The order in which an epoch consumes its samples. The numbers are stored in checkpoints.
enum class Shuffle {
  kNone = 0,          // the order of the files
  kFull = 1,          // one permutation of all samples
  kStreams = 2,       // StreamOrder
  kFixedStreams = 3,  // StreamOrder with fixed streams
};
/// Parses "false", "true", "streams" or "fixed_streams".
absl::StatusOr<Shuffle> ParseShuffle(std::string_view text);
/// Returns true for the orders of StreamOrder.
bool IsStreamed(Shuffle shuffle);

/// An order of samples. Value; cheap to copy; const methods are thread-safe.
class Sampler {
 public:
  /// REQUIRES: size >= 1, plan.micro_batch >= 1, plan.global_batch >= 1.
  Sampler(uint64_t seed, int64_t size, BatchPlan plan, bool shuffle);
  /// Makes the streamed order over the shards. REQUIRES in addition what StreamOrder does.
  Sampler(uint64_t seed, BatchPlan plan, StreamShards shards);

  /// Returns the steps of one epoch: ceil(size / B); the last one is short unless B divides size.
  int64_t steps_per_epoch() const { return plan_.Steps(size_); }
  /// Returns N, the number of samples in this step of an epoch (0-based).
  int64_t samples_in_step(int64_t step_in_epoch) const;
  /// Returns the number of samples in one micro-batch; 0 if it is beyond the end of a short last step.
  int64_t samples_in_micro_batch(int64_t step_in_epoch, int64_t micro_batch) const;
  /// Returns the micro-batch's sample ids in order; each epoch is one permutation of [0, size).
  std::vector<int64_t> MicroBatch(int64_t epoch, int64_t step_in_epoch, int64_t micro_batch) const;
  /// Returns all ids of a step: the concatenation of its micro-batches.
  std::vector<int64_t> Step(int64_t epoch, int64_t step_in_epoch) const;

 private:
  uint64_t seed_;
  int64_t size_ = 0;
  BatchPlan plan_;
  bool shuffle_ = true;
  std::optional<StreamOrder> streams_;  // instead of one order of all samples
};

/// Sets the options of `shards` for this order.
StreamShards ShardsInOrder(Shuffle shuffle, StreamShards shards);
/// Makes a sampler over all samples of the shards.
Sampler MakeSampler(uint64_t seed, BatchPlan plan, Shuffle shuffle, const StreamShards& shards);

/// Returns the SHA-256 over the ids as little-endian int64, for the ledger.
std::string DigestOfIds(const std::vector<int64_t>& ids);

}  // namespace mtrun::datasets
