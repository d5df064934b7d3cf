// What the passes of a worker's step add up to beside gradients: loss and right predictions. On the CPU in
// double, at once; on another device, and for recordings, by device operations that nobody waits for. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainers/engine/data_parallel.h"
#include "trainers/engine/task.h"

namespace mtrun::engine {

/// What a member wants behind a step; how many want it comes back to all of them.
struct Wishes {
  bool leave = false;
  bool regroup = false;
};

class Tally {
 public:
  /// Numbers that a step sums over the workers beside the gradients: loss, right predictions, both wishes.
  static constexpr int kStats = 4;

  /// `data_parallel` was made with kStats and outlives this. `passes`: at most so many a step.
  Tally(DataParallel& data_parallel, int64_t passes, bool on_device);

  /// After data_parallel's BeginStep.
  void Begin(Wishes wishes);
  /// The result of pass number `pass`, of weight n_shard / N. Repeatable by a recording if on_device.
  void Add(size_t pass, const Task::Output& output, double weight);
  /// Behind the last pass, ahead of its backward: the stats stand.
  void End();
  /// The passes since Begin whose loss was not finite. Waits for the device.
  std::vector<size_t> NotFinite() const;

 private:
  void SetStats();

  DataParallel& data_parallel_;
  const bool on_device_;
  at::Tensor losses_;  // double [passes]; 0: no such pass
  Wishes wishes_;
  double loss_ = 0;
  int64_t correct_ = 0;
};

}  // namespace mtrun::engine
