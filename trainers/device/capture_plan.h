// When a piece of work on the device is captured, when the capture is replayed and when the work runs in the
// ordinary way. Free of LibTorch; a pure state machine, one event a step.
#pragma once

#include <cstdint>
#include <vector>

namespace mtrun::trainers {

/// What a capture of a step's work holds for; the values of inputs may differ.
struct WorkShape {
  std::vector<int64_t> samples;  // of each pass; empty: there is nothing to do
  int64_t samples_in_step = 0;   // N, by which the losses are weighted
  bool operator==(const WorkShape&) const = default;
};

class CapturePlan {
 public:
  enum class Action {
    kEager,    // run the work
    kCapture,  // drop the last capture, capture the work (which runs nothing), then replay
    kReplay,   // replay the capture
  };
  /// Steps of one shape in a row before it is captured: libraries choose their algorithms and allocate in the
  /// first ones.
  static constexpr int kWarmUp = 3;

  /// What to do with the next step. A shape that comes now and then (an epoch's short last step) runs in
  /// the ordinary way and leaves the capture alone; one that stays replaces it.
  Action Next(const WorkShape& shape);

 private:
  WorkShape captured_, seen_;  // empty at first
  int in_a_row_ = 0;           // steps of shape seen_
};

}  // namespace mtrun::trainers
