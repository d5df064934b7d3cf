// When a piece of work on the device is recorded, when the recording is replayed and when the work is done in
// the ordinary way. Free of LibTorch; a pure state machine, one event a step.
#pragma once

#include <cstdint>
#include <vector>

namespace mtrun::engine {

/// All that a recording of a step's work is good for; the values of inputs may differ.
struct WorkShape {
  std::vector<int64_t> samples;  // of each pass; empty: there is nothing to do
  int64_t samples_in_step = 0;   // N, by which the losses are weighted
  bool operator==(const WorkShape&) const = default;
};

class GraphPlan {
 public:
  enum class Action {
    kEager,   // do the work
    kRecord,  // drop what is recorded, record the work (which does nothing), then replay
    kReplay,  // replay what is recorded
  };
  /// Steps of one shape in a row before it is recorded: libraries choose their ways and allocate in the first
  /// ones.
  static constexpr int kWarmUp = 3;

  /// What to do with the next step. A shape that comes now and then (an epoch's short last step) is done in
  /// the ordinary way and leaves the recording alone; one that stays replaces it.
  Action Next(const WorkShape& shape);

 private:
  WorkShape recorded_, seen_;  // empty at first
  int in_a_row_ = 0;           // steps of shape seen_
};

}  // namespace mtrun::engine
