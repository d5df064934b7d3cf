// A worker's part of a step as a recording: its inputs are copied to where the recording reads them, then it
// is replayed. What is done when is the plan's decision (graph_plan.h); what a recording is, the graph's
// (graph.h). Training thread only; belongs to one generation, whose gradients it writes to.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trainers/engine/graph.h"
#include "trainers/engine/graph_plan.h"
#include "trainers/engine/task.h"

namespace mtrun::engine {

/// What one forward pass begins with.
struct PassInputs {
  std::vector<at::Tensor> batch;  // ShardSource::Inputs
  Chance chance;
};

class RecordedWork {
 public:
  using Work = std::function<void(const std::vector<PassInputs>&)>;

  explicit RecordedWork(GraphFactory make) : make_(std::move(make)) {}

  /// Of the next step.
  GraphPlan::Action Next(const WorkShape& shape) { return plan_.Next(shape); }
  /// After kRecord or kReplay. `inputs`: of the shape that was announced. `work` is recorded if that is due
  /// (and copied, with all that it refers to living as long as this): it computes from the inputs that it is
  /// given and may read other tensors, but leaves results in tensors alone. Throws what it throws.
  void Do(GraphPlan::Action action, const std::vector<PassInputs>& inputs, const Work& work);

 private:
  void Record(const std::vector<PassInputs>& inputs, const Work& work);
  void Take(const std::vector<PassInputs>& inputs);

  const GraphFactory make_;
  GraphPlan plan_;
  std::vector<PassInputs> inputs_;  // that the recording reads
  std::unique_ptr<Graph> graph_;    // goes before what it reads does
};

}  // namespace mtrun::engine
