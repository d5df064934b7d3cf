// Decides when work on the device runs in the ordinary way, when it is captured and when the capture is
// replayed. Independent of LibTorch; a pure state machine, one event a step.
#pragma once

#include <cstdint>
#include <vector>

namespace mtrun::trainers {

/// The shape of a step's work, for which a capture is valid; the values of inputs may differ.
struct WorkShape {
  std::vector<int64_t> samples;  // samples of each pass; empty: no work
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
  /// Steps of one shape in a row before its capture: in the first ones libraries choose algorithms and
  /// allocate.
  static constexpr int kWarmUp = 3;

  /// Returns the action for the next step. If a shape comes only now and then (an epoch's short last step),
  /// it runs in the ordinary way and keeps the capture; if it stays, it replaces it.
  Action Next(const WorkShape& shape);

 private:
  WorkShape captured_, seen_;  // empty at first
  int in_a_row_ = 0;           // steps of shape seen_
};

}  // namespace mtrun::trainers
