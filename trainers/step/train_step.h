// One optimizer step: this worker's micro-batches forward and backward, the sum over the workers, the update.
// Belongs to one generation, like its DataParallel. Not thread-safe.
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
    uint64_t seed = 0;  // for the tasks' random numbers
    Precision precision = Precision::kFp32;
    int64_t sync_micro_batches =
        0;  // --sync_bn over groups of this many micro-batches; 0: each micro-batch alone
    FaultPlan* faults = nullptr;    // null: no faults
    GraphFactory graphs = nullptr;  // --graph: captures the work of a step; not with sync_micro_batches
    /// Called when the step's sums are complete, before anything is applied. It can block. An error aborts
    /// the step. Null: the step may be applied.
    std::function<absl::Status()> may_commit = nullptr;
    /// Exchanges the members' records if they are not sent with the sums: the commit rule. Tests use others.
    std::function<absl::StatusOr<std::vector<std::string>>(const collectives::ProcessGroup& group,
                                                           const std::string& own)>
        exchange = collectives::CommitNotes;
    RefusedSums* refused = nullptr;  // outlives the generation; null: refused sums are not compared
  };

  /// All references must outlive this. `data_parallel` was made for `state.trained()`. Its gradients and the
  /// state are bound here.
  TrainStep(Task& task, MicroBatchSource& source, DataParallel& data_parallel, TrainState& state,
            const Options& options);

  /// Computes the part of worker `rank` of `world_size`, which are the same in every call. The update is the
  /// same on all members. Without loss scaling, every member returns kOutOfRange and updates nothing if a
  /// loss or gradient is not finite. If it is a loss, its owner's message names step and micro-batches. After
  /// other errors the step is aborted.
  absl::StatusOr<StepResult> Run(int64_t step, int rank, int world_size, double learning_rate,
                                 StepVotes votes = {});
  /// Returns whether both passes and update have been captured. Requires graphs.
  bool captured() const { return captured_passes_->captured() && captured_update_->captured(); }

 private:
  /// Returns the own forward passes in order: single micro-batches, or with --sync_bn parts of groups.
  std::vector<SyncRound> Passes(int64_t step, int rank, int world_size);
  int64_t Filled(int64_t step) const;
  Batch BatchOf(int64_t step, MicroBatchRange micro_batches);
  void LookAhead(int64_t step, const std::vector<SyncRound>& passes, size_t pass);
  RandomInputs RandomInputsOf(int64_t step, int64_t micro_batch, int64_t samples) const;
  void Compute(int64_t step, int rank, int world_size, const std::vector<SyncRound>& passes);
  bool ComputeCaptured(int64_t step, const std::vector<SyncRound>& passes);
  void AttachStepRecord();
  void ForwardAndBackward(size_t pass, const Batch& batch, const RandomInputs& random,
                          int64_t samples_in_step, const std::function<void()>& before_backward);
  /// Records of all members, by rank.
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
  std::vector<int64_t> first_micro_batches_;                       // for each pass of the running step
  std::optional<CapturedStep> captured_passes_, captured_update_;  // with graphs
  int64_t skipped_in_a_row_ = 0;
  Duration data_ = {};                 // for data, in the running step
  StepTimes own_times_;                // of the previous step
  std::vector<StepTimes> last_times_;  // all members', from the running step's records
};

}  // namespace mtrun::trainers
