// What a device left in the sums of a step that was not applied: an aborted one, here or a neighbour's, may
// leave garbage, and nothing in the numbers says so. The step is done again, and then it shows. Free of
// LibTorch; training thread only.
#pragma once

#include <cstdint>
#include <string>

namespace mtrun::trainers {

class RefusedSums {
 public:
  /// This worker has read the sums of `step`, which the others do not commit. `total`: of their magnitudes.
  void Refuse(int64_t step, double total) {
    step_ = step;
    total_ = total;
  }
  /// The sums of `step` have been read, and all commit them. One sentence where it had been refused before
  /// with other sums than these, else "".
  std::string Settle(int64_t step, double total);

 private:
  int64_t step_ = -1;  // that was refused last and has not come again; -1: none
  double total_ = 0;
};

}  // namespace mtrun::trainers
