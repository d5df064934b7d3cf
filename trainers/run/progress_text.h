// The line that shows how far a run is, as a pure function of its values and of the width there is.
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
  int64_t memory = 0;  // bytes that this worker holds, of its GPU where it has one; 0: not known
};

/// `epoch 2/10  step 1234/31250  4 %  loss 1.2345  lr 0.001  8612 images/s  3 workers  412 MiB  2 min 05 s
/// left`, all of it.
std::string ProgressText(const ProgressState& state);
/// In at most `columns` columns: words become shorter, then what matters least goes.
std::string ProgressText(const ProgressState& state, int columns, bool colours);

/// The mean of the last steps' losses, later ones with more weight: step n counts kKeep times what step n + 1
/// does. What is not finite is shown as it is, and forgotten.
class SmoothedLoss {
 public:
  static constexpr double kKeep = 0.98;
  double Add(double loss);

 private:
  double sum_ = 0, weight_ = 0;
};

}  // namespace mtrun::trainers
