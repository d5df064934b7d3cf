// Results of a finished run: the closing table, its JSON, and the run folder's files. The texts are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "trainers/run/records/metrics_log.h"
#include "trainers/step/confusion_matrix.h"
#include "trainers/step/notable_images.h"

namespace mtrun::trainers {

struct RunReport {
  std::string program;
  std::vector<std::string> class_names;  // empty if the task has no classes
  ConfusionMatrix matrix{0};             // on the test images, with the final weights
  NotableImages notable = {};            // likewise; empty if another process has evaluated
  double test_loss = 0;
  std::optional<double> test_top5 = {};    // if there are many classes
  double best_accuracy = 0;                // over the evaluations of all epochs
  double best_loss = 0;                    // decides if there are no classes
  int64_t best_epoch = 0, best_steps = 0;  // steps finished then
  int64_t tested_epoch = 0;                // of the tested weights; 0: the final ones
  bool chosen_by_validation = false;       // true: validation images chose the best epoch; false: test images
  int64_t epochs = 0, steps = 0;           // finished
  int64_t global_batch = 0, micro_batch = 0;
  int world_size = 1, nodes = 1;
  double seconds = 0;            // from the program's start to the last evaluation
  double training_seconds = 0;   // without evaluations
  double images_per_second = 0;  // while training
  std::vector<EvalRecord> history;

  /// Adds an evaluation; returns whether it is the best so far. If its epoch was evaluated before
  /// (--max_steps had cut it short), it replaces that entry of the history. The caller sets the matrix.
  bool Add(const EvalRecord& record);
  /// Returns whether `timeout` epochs (0: never) have passed since the best one.
  bool IsStale(int64_t timeout) const { return timeout > 0 && epochs - best_epoch >= timeout; }
  /// Returns the finished steps at the best evaluation; nothing before the first one.
  std::optional<int64_t> BestSteps() const {
    return history.empty() ? std::nullopt : std::optional(best_steps);
  }
};

/// In the place of the figures of a class without test images.
inline constexpr char kNoImages[] = "no images";

/// Returns an aligned table with the line `test accuracy  85.3 %`, figures per class, and the confusion
/// matrix with rows actual and columns predicted (numbered if the names do not fit a line). With kManyClasses
/// or more it has the most frequent confusions, and only the JSON has the matrix. Without classes: the
/// losses.
std::string ReportText(const RunReport& report);
nlohmann::json ReportJson(const RunReport& report);
/// Returns `epoch 1/10  train loss 1.93 accuracy 29.1 %  test loss 1.80 accuracy 34.0 %  new best  5.2 s`. It
/// is shorter if that exceeds `columns` and `columns` is not 0.
std::string EpochText(const EvalRecord& record, int64_t epochs, bool new_best, int columns = 0);

/// Writes report.txt and report.json into `folder`.
absl::Status WriteReport(const RunReport& report, const std::string& folder);

}  // namespace mtrun::trainers
