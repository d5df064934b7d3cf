// The run of a classifier over epochs and steps: order of samples, learning rate, evaluation after each
// epoch, records and progress. Membership is an argument. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "datasets/packed.h"
#include "datasets/sampler.h"
#include "trainers/engine/classifier.h"
#include "trainers/engine/evaluate.h"
#include "trainers/engine/membership.h"
#include "trainers/engine/metrics_log.h"
#include "trainers/engine/progress.h"
#include "trainers/engine/report.h"
#include "trainers/engine/step.h"

namespace mtrun::engine {

/// A packed training split in the sampler's order, augmented as the options say: a pure function of (options,
/// data).
class DatasetShards : public ShardSource {
 public:
  DatasetShards(const datasets::PackedSplit& data, const TrainOptions& options,
                const BatchMaker::Options& batch);

  int64_t steps_per_epoch() const { return sampler_.steps_per_epoch(); }
  int64_t shards() const override { return plan_.shards(); }
  int64_t SamplesInStep(int64_t step) const override;
  int64_t SamplesInShard(int64_t step, int64_t shard) const override;
  Batch Make(int64_t step, int64_t shard) override;

 private:
  const datasets::BatchPlan plan_;
  const datasets::Sampler sampler_;
  const BatchMaker batches_;
  const Augmentation augmentation_;
  const uint64_t seed_;
};

class TrainLoop {
 public:
  struct Inputs {
    const ClassifierProgram& program;
    const TrainOptions& options;
    const datasets::PackedSplit& train;
    const datasets::PackedSplit& test;
    const Model& model;
    BatchMaker::Options batch;
  };

  /// All references must outlive this. `log` is null on all ranks but 0. `start`: when the program began.
  TrainLoop(const Inputs& inputs, Team& team, MetricsLog* log, ProgressLine& progress, TimePoint start);

  /// Trains to the end. The report is the same on all ranks, times apart.
  absl::StatusOr<RunReport> Run();

 private:
  struct EpochSums {
    double loss = 0;
    int64_t correct = 0, samples = 0;
  };
  absl::Status RunEpoch(int64_t epoch, int64_t end_step);
  absl::Status AfterStep(int64_t epoch, const StepResult& result, double learning_rate, TimePoint began);
  absl::Status FinishEpoch(int64_t epoch, double seconds);
  void ShowProgress(int64_t epoch, const StepResult& result, double learning_rate, TimePoint now);

  // Constant after construction.
  const Inputs in_;
  Team& team_;
  MetricsLog* const log_;
  ProgressLine& progress_;
  const TimePoint start_;

  DatasetShards source_;
  BatchMaker test_batches_;
  DataParallel data_parallel_;
  std::unique_ptr<Optimizer> optimizer_;
  StepRunner runner_;
  Schedule schedule_;
  ProgressPacer pacer_;

  // State of the run.
  int64_t step_ = 0;     // finished
  int64_t samples_ = 0;  // consumed
  EpochSums sums_;
  RunReport report_;
  TimePoint shown_;  // when progress was last shown, and how many samples had been consumed then
  int64_t shown_samples_ = 0;
  TimePoint told_;  // when the agent was last told
};

/// Parameters that require gradients, in the module's order.
std::vector<at::Tensor> TrainedParameters(const torch::nn::Module& module);

}  // namespace mtrun::engine
