// One optimizer step: this worker's shards forward and backward, the sum over the workers, the update.
// Belongs to one generation, as its DataParallel does. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "trainers/engine/amp.h"
#include "trainers/engine/batch.h"
#include "trainers/engine/data_parallel.h"
#include "trainers/engine/fault_plan.h"
#include "trainers/engine/graph.h"
#include "trainers/engine/learner.h"
#include "trainers/engine/recorded_work.h"
#include "trainers/engine/shards.h"
#include "trainers/engine/sync_batch_norm.h"
#include "trainers/engine/tally.h"
#include "trainers/engine/task.h"

namespace mtrun::engine {

/// Where the samples of a step come from. `step` counts over the whole run, from 0.
class ShardSource {
 public:
  virtual ~ShardSource() = default;
  /// V, the same for every step.
  virtual int64_t shards() const = 0;
  /// N.
  virtual int64_t SamplesInStep(int64_t step) const = 0;
  /// 0 for shards beyond a short last step of an epoch; never for shard 0.
  virtual int64_t SamplesInShard(int64_t step, int64_t shard) const = 0;
  virtual Batch Make(int64_t step, int64_t shard) = 0;
  /// Make in two halves, as ImageBatches has them.
  virtual std::vector<at::Tensor> Inputs(int64_t step, int64_t shard) {
    const Batch batch = Make(step, shard);
    return {batch.images, batch.labels};
  }
  virtual Batch Compose(const std::vector<at::Tensor>& inputs) const { return {inputs[0], inputs[1]}; }
  /// A hint: the next call of Make or Inputs is likely to be this one, which is allowed.
  virtual void Ahead(int64_t step, int64_t shard) {
    static_cast<void>(step);
    static_cast<void>(shard);
  }
};

struct StepResult {
  double loss = 0;      // mean over the step's samples, with the weights before the update
  int64_t correct = 0;  // right predictions, likewise
  int64_t samples = 0;
  bool skipped = false;  // loss scaling met an infinity: the weights are those before the step
  int leaving = 0;       // members that want to go behind this step
  int regrouping = 0;    // members that know of a new membership to come behind this step
};

class StepRunner {
 public:
  static constexpr int kStats = Tally::kStats;

  struct Options {
    uint64_t seed = 0;  // of the tasks' random numbers
    Precision precision = Precision::kFp32;
    int64_t sync_shards = 0;        // --sync_bn over groups of so many shards; 0: each shard by itself
    FaultPlan* faults = nullptr;    // null: none are planned
    GraphFactory graphs = nullptr;  // --graph: records the work of a step; without sync_shards
  };

  /// All references must outlive this; `data_parallel` was made for `learner.trained()` with kStats, its
  /// gradients and the learner are bound here.
  StepRunner(Task& task, ShardSource& source, DataParallel& data_parallel, Learner& learner,
             const Options& options);

  /// Computes the part of worker `rank` of `world_size`, the same two in every call; the update is the same
  /// on all. Without loss scaling a loss that is not finite is kOutOfRange on every member (the owner's
  /// message names step and shards) and nothing is updated. Other errors leave a torn step.
  absl::StatusOr<StepResult> Run(int64_t step, int rank, int world_size, double learning_rate,
                                 Wishes wishes = {});

 private:
  /// Own forward passes, one after the other: single shards, or with --sync_bn parts of groups.
  std::vector<SyncRound> Passes(int64_t step, int rank, int world_size);
  std::vector<SyncRound> OwnShards(int64_t step, int rank, int world_size) const;
  std::vector<SyncRound> SyncRounds(int64_t step, int rank, int world_size);
  Batch BatchOf(int64_t step, ShardRange shards);
  void LookAhead(int64_t step, const std::vector<SyncRound>& passes, size_t pass);
  Chance ChanceOf(int64_t step, int64_t shard, int64_t samples) const;
  void Compute(int64_t step, const std::vector<SyncRound>& passes);
  bool ComputeRecorded(int64_t step, const std::vector<SyncRound>& passes);
  void ForwardAndBackward(size_t pass, const Batch& batch, const Chance& chance, int64_t samples_in_step,
                          const std::function<void()>& before_backward);
  void Update(const std::function<void()>& update);
  void Reach(Fault::At at, int64_t step) {
    if (options_.faults != nullptr) options_.faults->Reach(at, step);
  }
  absl::Status CheckFinite(int64_t step, double loss) const;

  Task& task_;
  ShardSource& source_;
  DataParallel& data_parallel_;
  Learner& learner_;
  const Options options_;
  const at::Device device_;
  std::shared_ptr<SyncBatchNorm> sync_;  // with sync_shards, from the first step on
  Tally tally_;
  std::vector<int64_t> first_shards_;                              // of each pass of the running step
  std::optional<RecordedWork> recorded_passes_, recorded_update_;  // with graphs
  int64_t skipped_in_a_row_ = 0;
};

}  // namespace mtrun::engine
