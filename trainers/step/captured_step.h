// A worker's part of a step, captured: its inputs are copied to where the capture reads them, then it is
// replayed. What runs when is the plan's decision (capture_plan.h); what a capture is, the graph's (graph.h).
// Training thread only; belongs to one generation, whose gradients it writes to.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trainers/device/capture_plan.h"
#include "trainers/device/graph.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

/// What one forward pass begins with.
struct PassInputs {
  std::vector<at::Tensor> batch;  // MicroBatchSource::Inputs
  RandomInputs random;
};

class CapturedStep {
 public:
  using Work = std::function<void(const std::vector<PassInputs>&)>;

  explicit CapturedStep(GraphFactory make) : make_(std::move(make)) {}

  /// Of the next step.
  CapturePlan::Action Next(const WorkShape& shape) { return plan_.Next(shape); }
  /// Whether there is something to replay.
  bool captured() const { return graph_ != nullptr; }
  /// After kCapture or kReplay. `inputs`: of the shape that was announced. `work` is captured if that is due
  /// (and copied, with all that it refers to living as long as this): it computes from the inputs that it is
  /// given and may read other tensors, but leaves results in tensors alone. Throws what it throws.
  void Run(CapturePlan::Action action, const std::vector<PassInputs>& inputs, const Work& work);

 private:
  void Capture(const std::vector<PassInputs>& inputs, const Work& work);
  void Take(const std::vector<PassInputs>& inputs);

  const GraphFactory make_;
  CapturePlan plan_;
  std::vector<PassInputs> inputs_;  // that the capture reads
  std::unique_ptr<Graph> graph_;    // goes before what it reads does
};

}  // namespace mtrun::trainers
