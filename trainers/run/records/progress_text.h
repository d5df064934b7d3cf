// Text of the status line that shows a run's progress: a pure function of its values and the available width.
#pragma once

#include <cstdint>
#include <string>

namespace mtrun::trainers {

struct ProgressState {
  int64_t epoch = 1, epochs = 1;  // 1-based
  int64_t step = 0, steps = 0;    // finished, of the whole run
  double loss = 0;                // smoothed
  double learning_rate = 0;
  double images_per_second = 0;
  double seconds_left = 0;
  int world = 1;       // workers
  int64_t memory = 0;  // bytes in use by this worker, on its GPU if it has one; 0: unknown
};

/// Returns all of `epoch 2/10  step 1234/31250  4 %  loss 1.2345  lr 0.001  8612 images/s  3 workers  412 MiB
/// 2 min 05 s left`.
std::string ProgressText(const ProgressState& state);
/// Returns it in at most `columns` columns: abbreviates words, then drops the least important fields.
std::string ProgressText(const ProgressState& state, int columns, bool colours);

/// The mean of the last steps' losses, weighted exponentially: each step has kKeep times the weight of the
/// next one. A loss that is not finite is returned as it is, and not kept.
class SmoothedLoss {
 public:
  static constexpr double kKeep = 0.98;
  double Add(double loss);

 private:
  double sum_ = 0, weight_ = 0;
};

}  // namespace mtrun::trainers
