// What a finished run says: the closing table, its JSON, and the files in the run folder. The texts
// are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "trainers/run/metrics_log.h"
#include "trainers/step/confusion_matrix.h"

namespace mtrun::trainers {

struct RunReport {
  std::string program;
  std::vector<std::string> class_names;  // none: the task has no classes
  ConfusionMatrix matrix{0};             // on the test images, with the final weights
  double test_loss = 0;
  std::optional<double> test_top5 = {};    // of many classes
  double best_accuracy = 0;                // over the evaluations of all epochs; without classes
  double best_loss = 0;                    // the loss decides
  int64_t best_epoch = 0, best_steps = 0;  // steps finished then
  int64_t tested_epoch = 0;  // whose weights the figures of the test images are of, 0: the final ones
  bool chosen_by_validation = false;  // the best epoch; else by the test images
  int64_t epochs = 0, steps = 0;      // finished
  int64_t global_batch = 0, micro_batch = 0;
  int world_size = 1, nodes = 1;
  double seconds = 0;            // from the program's start to the last evaluation
  double training_seconds = 0;   // without evaluations
  double images_per_second = 0;  // while training
  std::vector<EvalRecord> history;

  /// One more evaluation; true when it is the best so far. The matrix is the caller's.
  bool Add(const EvalRecord& record);
  /// Whether `patience` epochs (0: never) have passed since the best one.
  bool IsStale(int64_t patience) const { return patience > 0 && epochs - best_epoch >= patience; }
  /// Finished steps at the best evaluation; nothing before the first one.
  std::optional<int64_t> BestSteps() const {
    return history.empty() ? std::nullopt : std::optional(best_steps);
  }
};

/// Aligned table with the line `test accuracy  85.3 %`, figures per class, and the confusion matrix with rows
/// actual and columns predicted (numbered where the names would not fit a line); of kManyClasses or more the
/// most frequent confusions stand there instead, and the matrix in the JSON alone. Without classes the losses
/// alone.
std::string ReportText(const RunReport& report);
nlohmann::json ReportJson(const RunReport& report);
/// `epoch 1/10  train loss 1.93 accuracy 29.1 %  test loss 1.80 accuracy 34.0 %  new best  5.2 s`.
/// Briefer where that is longer than `columns`, unless these are 0.
std::string EpochText(const EvalRecord& record, int64_t epochs, bool new_best, int columns = 0);

/// report.txt and report.json in `folder`.
absl::Status WriteReport(const RunReport& report, const std::string& folder);

}  // namespace mtrun::trainers
