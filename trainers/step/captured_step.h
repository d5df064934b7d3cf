// Captures a worker's part of a step and replays it, after copying the step's inputs to where the capture
// reads them. The plan decides what runs when (capture_plan.h), and the graph does the capturing (graph.h).
// Training thread only. Belongs to one generation, because it writes to that generation's gradients.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trainers/device/capture_plan.h"
#include "trainers/device/graph.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

/// Inputs of one forward pass.
struct PassInputs {
  std::vector<at::Tensor> batch;  // MicroBatchSource::Inputs
  RandomInputs random;
};

class CapturedStep {
 public:
  using Work = std::function<void(const std::vector<PassInputs>&)>;

  explicit CapturedStep(GraphFactory make) : make_(std::move(make)) {}

  /// Returns the action for the next step.
  CapturePlan::Action Next(const WorkShape& shape) { return plan_.Next(shape); }
  /// Returns whether there is a capture to replay.
  bool captured() const { return graph_ != nullptr; }
  /// Runs a step after Next returned kCapture or kReplay. `inputs` have the announced shape. If a capture is
  /// due, `work` is captured and copied, and all that it refers to must outlive this. It computes from the
  /// given inputs and can read other tensors, but leaves results only in tensors. Throws what `work` throws.
  void Run(CapturePlan::Action action, const std::vector<PassInputs>& inputs, const Work& work);

 private:
  void Capture(const std::vector<PassInputs>& inputs, const Work& work);
  void Take(const std::vector<PassInputs>& inputs);

  const GraphFactory make_;
  CapturePlan plan_;
  std::vector<PassInputs> inputs_;  // read by the capture
  std::unique_ptr<Graph> graph_;    // destroyed before the tensors that it reads
};

}  // namespace mtrun::trainers
