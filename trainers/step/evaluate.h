// Exact evaluation: exactly one worker sees each sample, and counts are summed as integers.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/device/amp.h"
#include "trainers/input/batch.h"
#include "trainers/step/confusion_matrix.h"
#include "trainers/step/notable_images.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

struct Evaluation {
  ConfusionMatrix matrix{0};        // for tasks with classes
  double loss = 0;                  // mean over the samples
  std::optional<double> top5 = {};  // part of the samples whose class is among the first five guesses
  NotableImages notable = {};       // for tasks with classes
};

/// Images computed at once, at most. A device takes more, because one image is less work for it.
inline constexpr int64_t kEvaluationBatch = 250, kEvaluationBatchOnDevice = 1000;
/// Returns the batch size for images of this many pixels a side: as many as fit into the memory of
/// kEvaluationBatch images of 224 x 224. It does not depend on the workers, so a run's counts do not either.
int64_t EvaluationBatch(int image_size, bool on_cpu);

/// A worker's part of an evaluation: contiguous batches of samples [0, size) for worker `rank`.
struct EvaluationPart {
  int64_t size = 0;
  int rank = 0, world_size = 1;
  Precision precision = Precision::kFp32;  // precision of training steps
  int image_size = 0;  // side in pixels that the network computes with, 0: largest batches
};

/// Evaluates the network. Every member calls it (`group` null: one worker) and gets the same result. A pure
/// function of the weights; leaves the network in training mode. `each_batch` is called before each of this
/// worker's batches. If it fails, the evaluation returns its error, and the others wait for this worker's
/// counts until its group ends. The device counts and is read once, at the end.
absl::StatusOr<Evaluation> Evaluate(
    Task& task, const ImageBatches& batches, const EvaluationPart& part,
    const collectives::ProcessGroup& group,
    const std::function<absl::Status()>& each_batch = [] { return absl::OkStatus(); });

/// Draws the task's picture of the network's progress, a PNG at `path`. Leaves the network in training mode.
absl::Status DrawPicture(Task& task, const std::string& path);

}  // namespace mtrun::trainers
