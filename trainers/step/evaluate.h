// Exact evaluation shared by the workers: each sample is seen by exactly one of them, counts are summed as
// integers.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/device/amp.h"
#include "trainers/input/batch.h"
#include "trainers/step/confusion_matrix.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

struct Evaluation {
  ConfusionMatrix matrix{0};        // of a task with classes
  double loss = 0;                  // mean over the samples
  std::optional<double> top5 = {};  // part of the samples whose class is among the first five guesses
};

/// Images computed at once, at most; on a device, which has less to do with one of them, more.
inline constexpr int64_t kEvaluationBatch = 250, kEvaluationBatchOnDevice = 1000;
/// Of so many pixels a side: as many as fit into the memory of kEvaluationBatch of 224 x 224. Whoever takes
/// part computes the same batches, so a run's counts do not depend on its workers.
int64_t EvaluationBatch(int image_size, bool on_cpu);

/// Who evaluates what: samples [0, size), of which worker `rank` takes contiguous batches.
struct EvaluationPart {
  int64_t size = 0;
  int rank = 0, world_size = 1;
  Precision precision = Precision::kFp32;  // that steps are computed in
  int image_size = 0;                      // pixels a side that the network computes with, 0: few
};

/// Every member calls it (`group` null: alone) and gets the same result. A pure function of the weights;
/// leaves the network in training mode. `each_batch` is called before every one of this worker's; its error
/// ends the evaluation and is what this returns, while the others wait for this worker's counts until its
/// group ends. The device counts and is read once, at the end.
absl::StatusOr<Evaluation> Evaluate(
    Task& task, const ImageBatches& batches, const EvaluationPart& part,
    const collectives::ProcessGroup& group,
    const std::function<absl::Status()>& each_batch = [] { return absl::OkStatus(); });

/// The task's picture of how the network does, a PNG at `path`; leaves the network in training mode.
absl::Status DrawPicture(Task& task, const std::string& path);

}  // namespace mtrun::trainers
