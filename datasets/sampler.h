// Which samples a step consumes, as a pure function of (seed, epoch, step, micro-batch): never of the
// cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/batch_plan.h"
#include "datasets/stream_order.h"

namespace mtrun::datasets {

/// In which order an epoch consumes its samples. The numbers stand in checkpoints.
enum class Shuffle {
  kNone = 0,          // as they lie in the files
  kFull = 1,          // one permutation of all
  kStreams = 2,       // StreamOrder
  kFixedStreams = 3,  // the same with fixed streams
};
/// "false", "true", "streams" or "fixed_streams".
absl::StatusOr<Shuffle> ParseShuffle(std::string_view text);
/// Whether it is an order of StreamOrder.
bool IsStreamed(Shuffle shuffle);

/// Order of samples. Value; cheap to copy; const methods are thread-safe.
class Sampler {
 public:
  /// REQUIRES: size >= 1, plan.micro_batch >= 1, plan.global_batch >= 1.
  Sampler(uint64_t seed, int64_t size, BatchPlan plan, bool shuffle);
  /// The streamed order over the shards; REQUIRES besides what StreamOrder does.
  Sampler(uint64_t seed, BatchPlan plan, StreamShards shards);

  /// Steps of one epoch: ceil(size / B); the last one is short unless B divides size.
  int64_t steps_per_epoch() const { return plan_.Steps(size_); }
  /// N, the samples of this step of an epoch (0-based).
  int64_t samples_in_step(int64_t step_in_epoch) const;
  /// Samples of one micro-batch, 0 for micro-batches beyond a short last step.
  int64_t samples_in_micro_batch(int64_t step_in_epoch, int64_t micro_batch) const;
  /// The micro-batch's sample ids in order; each epoch is one permutation of [0, size).
  std::vector<int64_t> MicroBatch(int64_t epoch, int64_t step_in_epoch, int64_t micro_batch) const;
  /// All ids of a step: the concatenation of its micro-batches.
  std::vector<int64_t> Step(int64_t epoch, int64_t step_in_epoch) const;

 private:
  int64_t IdAt(int64_t epoch, int64_t position) const;

  uint64_t seed_;
  int64_t size_ = 0;
  BatchPlan plan_;
  bool shuffle_ = true;
  std::optional<StreamOrder> streams_;  // instead of one order of all samples
};

/// The shards with what the order says of their streams.
StreamShards ShardsInOrder(Shuffle shuffle, StreamShards shards);
/// Over all samples of the shards.
Sampler MakeSampler(uint64_t seed, BatchPlan plan, Shuffle shuffle, const StreamShards& shards);

/// SHA-256 over the ids as little-endian int64, for the ledger.
std::string DigestOfIds(const std::vector<int64_t>& ids);

}  // namespace mtrun::datasets
