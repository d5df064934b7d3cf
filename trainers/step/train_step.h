// One optimizer step: this worker's micro-batches forward and backward, the sum over the workers, the update.
// Belongs to one generation, as its DataParallel does. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainers/collectives/device_group.h"
#include "trainers/device/amp.h"
#include "trainers/device/graph.h"
#include "trainers/input/batch.h"
#include "trainers/input/micro_batch_source.h"
#include "trainers/parallel/data_parallel.h"
#include "trainers/parallel/partition.h"
#include "trainers/parallel/sync_batch_norm.h"
#include "trainers/step/captured_step.h"
#include "trainers/step/fault_plan.h"
#include "trainers/step/refused_sums.h"
#include "trainers/step/step_result.h"
#include "trainers/step/step_stats.h"
#include "trainers/step/step_sums.h"
#include "trainers/step/task.h"
#include "trainers/step/train_state.h"

namespace mtrun::trainers {

class TrainStep {
 public:
  struct Options {
    uint64_t seed = 0;  // of the tasks' random numbers
    Precision precision = Precision::kFp32;
    int64_t sync_micro_batches =
        0;  // --sync_bn over groups of so many micro-batches; 0: each micro-batch by itself
    FaultPlan* faults = nullptr;    // null: none are planned
    GraphFactory graphs = nullptr;  // --graph: captures the work of a step; without sync_micro_batches
    /// Asked when the step's sums are whole, before anything is applied; may wait. An error aborts the step.
    /// Null: it may be applied.
    std::function<absl::Status()> may_commit = nullptr;
    /// How the members' records come together where they do not ride with the sums: the commit rule. Tests
    /// show what comes of others.
    std::function<absl::StatusOr<std::vector<std::string>>(const collectives::ProcessGroup& group,
                                                           const std::string& own)>
        exchange = collectives::CommitNotes;
    RefusedSums* refused = nullptr;  // that outlive the generation; null: nobody asks what was in them
  };

  /// All references must outlive this; `data_parallel` was made for `state.trained()`, its
  /// gradients and the state are bound here.
  TrainStep(Task& task, MicroBatchSource& source, DataParallel& data_parallel, TrainState& state,
            const Options& options);

  /// Computes the part of worker `rank` of `world_size`, the same two in every call; the update is the same
  /// on all. Without loss scaling a loss or gradient that is not finite is kOutOfRange on every member
  /// (of a loss the owner's message names step and micro-batches) and nothing is updated. After other errors
  /// the step is aborted.
  absl::StatusOr<StepResult> Run(int64_t step, int rank, int world_size, double learning_rate,
                                 StepVotes votes = {});
  /// With graphs: whether both passes and update have been captured.
  bool captured() const { return captured_passes_->captured() && captured_update_->captured(); }

 private:
  /// Own forward passes, one after the other: single micro-batches, or with --sync_bn parts of groups.
  std::vector<SyncRound> Passes(int64_t step, int rank, int world_size);
  std::vector<SyncRound> OwnMicroBatches(int64_t step, int rank, int world_size) const;
  std::vector<SyncRound> SyncRounds(int64_t step, int rank, int world_size);
  Batch BatchOf(int64_t step, MicroBatchRange micro_batches);
  void LookAhead(int64_t step, const std::vector<SyncRound>& passes, size_t pass);
  RandomInputs RandomInputsOf(int64_t step, int64_t micro_batch, int64_t samples) const;
  void Compute(int64_t step, int rank, int world_size, const std::vector<SyncRound>& passes);
  bool ComputeCaptured(int64_t step, const std::vector<SyncRound>& passes);
  void Tell();
  void ForwardAndBackward(size_t pass, const Batch& batch, const RandomInputs& random,
                          int64_t samples_in_step, const std::function<void()>& before_backward);
  /// Of all members, by rank.
  using Records = std::vector<std::string>;
  absl::StatusOr<StepSums> FinishSums(int64_t step);
  absl::StatusOr<StepSums> SumRecords(int64_t step);
  absl::StatusOr<Records> Exchange(int64_t step, const StepSums& own, const at::Tensor& gradient_sums);
  StepSums SumUp(const Records& records);
  void CountTimes(TimePoint began, Duration waited);
  void Update(const std::function<void()>& update);
  void Reach(Fault::At at, int64_t step) {
    if (options_.faults != nullptr) options_.faults->Reach(at, step);
  }
  absl::Status CheckFinite(int64_t step, const StepSums& record) const;

  Task& task_;
  MicroBatchSource& source_;
  DataParallel& data_parallel_;
  TrainState& state_;
  const Options options_;
  const at::Device device_;
  std::shared_ptr<SyncBatchNorm> sync_;  // with sync_micro_batches, from the first step on
  StepStats stats_;
  std::vector<int64_t> first_micro_batches_;                       // of each pass of the running step
  std::optional<CapturedStep> captured_passes_, captured_update_;  // with graphs
  int64_t skipped_in_a_row_ = 0;
  Duration data_ = {};                 // of the running step so far
  StepTimes own_times_;                // of the last one
  std::vector<StepTimes> last_times_;  // as the running step's records have them
};

}  // namespace mtrun::trainers
