// Exact evaluation shared by the workers: each sample is seen by exactly one of them, counts are summed as
// integers.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/input/batch.h"
#include "trainers/step/confusion_matrix.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

struct Evaluation {
  ConfusionMatrix matrix{0};        // of a task with classes
  double loss = 0;                  // mean over the samples
  std::optional<double> top5 = {};  // part of the samples whose class is among the first five guesses
};

/// Images computed at once.
inline constexpr int64_t kEvaluationBatch = 250;

/// Over samples [0, size) of `batches`; worker `rank` takes a contiguous part. Every member calls it (`group`
/// null: alone) and gets the same result. A pure function of the weights; leaves the network in training
/// mode. `each_batch` is called before every one of this worker's.
absl::StatusOr<Evaluation> Evaluate(
    Task& task, const ImageBatches& batches, int64_t size, int rank, int world_size,
    const collectives::ProcessGroup& group, const std::function<void()>& each_batch = [] {});

/// The task's picture of how the network does, a PNG at `path`; leaves the network in training mode.
absl::Status DrawPicture(Task& task, const std::string& path);

}  // namespace mtrun::trainers
