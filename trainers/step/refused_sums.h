// Detects garbage that a device left in the sums of a step that was not applied. If a device is aborted, here
// or on another member, its sums can be garbage that looks like numbers. The step is done again, and the
// comparison shows it. Independent of LibTorch; training thread only.
#pragma once

#include <cstdint>
#include <string>

namespace mtrun::trainers {

class RefusedSums {
 public:
  /// Records the sums of `step`, which this worker has read and the others do not commit. `total` is the
  /// total of their magnitudes.
  void Refuse(int64_t step, double total) {
    step_ = step;
    total_ = total;
  }
  /// Compares the sums of `step` after they have been read and all members commit them. Returns a sentence if
  /// the step had been refused with other sums, else "".
  std::string Settle(int64_t step, double total);

 private:
  int64_t step_ = -1;  // the last refused one that has not been repeated; -1: none
  double total_ = 0;
};

}  // namespace mtrun::trainers
