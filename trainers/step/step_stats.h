// What the passes of a worker's step add up to beside gradients: loss and right predictions. On the CPU in
// double, at once; on another device, and for captures, by device operations that nobody waits for. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "datasets/sample_sum.h"
#include "trainers/parallel/data_parallel.h"
#include "trainers/parallel/exact_sum.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

/// What a member wants to do after a step; all of them learn how many do.
struct StepVotes {
  bool leave = false;
  bool regroup = false;
};

class StepStats {
 public:
  /// Numbers that a step sums over the workers beside the gradients: loss, right predictions, both votes, and
  /// in limbs the hash and the count of the samples that were gathered.
  static constexpr int kLoss = 0, kCorrect = 1, kLeave = 2, kRegroup = 3, kHash = 4, kCount = kHash + kLimbs,
                       kStats = kCount + kLimbs;

  /// `data_parallel` was made with kStats and outlives this. `passes`: at most so many a step.
  StepStats(DataParallel& data_parallel, int64_t passes, bool on_device);

  /// After data_parallel's BeginStep.
  void Begin(StepVotes votes);
  /// The result of pass number `pass`, of weight n_micro_batch / N. A capture can repeat it if on_device.
  void Add(size_t pass, const Task::Output& output, double weight);
  /// The samples that this worker took for a pass; before End.
  void AddGathered(const datasets::SampleSum& samples) { gathered_ += samples; }
  /// After the last forward pass (of a capture: before it), before its backward: the stats are complete.
  void End();
  /// Of the sums over all workers.
  static datasets::SampleSum GatheredOf(const std::vector<double>& stats);
  /// The passes since Begin whose loss was not finite. Waits for the device.
  std::vector<size_t> NotFinite() const;

 private:
  void SetStats();

  DataParallel& data_parallel_;
  const bool on_device_;
  at::Tensor losses_;  // double [passes]; 0: no such pass
  StepVotes votes_;
  double loss_ = 0;
  int64_t correct_ = 0;
  datasets::SampleSum gathered_;
};

}  // namespace mtrun::trainers
