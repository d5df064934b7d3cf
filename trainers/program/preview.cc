#include "trainers/program/preview.h"

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/device/torch_status.h"
#include "trainers/input/dataset_source.h"
#include "trainers/tasks/image_grid.h"

namespace mtrun::trainers {
namespace {

/// Returns [count, 3, S, S], in the order of the run.
at::Tensor FirstImages(MicroBatchSource& source, int64_t count) {
  std::vector<at::Tensor> images;
  int64_t left = count;
  for (int64_t step = 0; left > 0; ++step) {
    for (int64_t micro_batch = 0; micro_batch < source.micro_batches() && left > 0; ++micro_batch) {
      if (source.SamplesInMicroBatch(step, micro_batch) == 0) break;
      images.push_back(source.Make(step, micro_batch).images);
      left -= images.back().size(0);
    }
  }
  return at::cat(images).narrow(0, 0, count);
}

absl::Status WriteFirst(const std::string& path, int64_t count, const TrainOptions& options,
                        const datasets::PackedSplit& train, const BatchOptions& batch) {
  DatasetSource source(train, options.source(), batch);
  return TorchStatus(
      "preview", [&] { return WriteImageGrid(path, FirstImages(source, std::min(count, train.size()))); });
}

}  // namespace

absl::Status WritePreview(const TrainOptions& options, const datasets::PackedSplit& train,
                          const BatchOptions& batch) {
  MT_RETURN_IF_ERROR(CheckWritable(options.model_folder));
  const std::string path = options.model_folder + "/preview.png";
  MT_RETURN_IF_ERROR(WriteFirst(path, options.preview, options, train, batch));
  log::Info("training images are in ", path);
  return absl::OkStatus();
}

absl::StatusOr<std::string> DrawPreview(const TrainOptions& options, const datasets::PackedSplit& train,
                                        BatchOptions batch) {
  constexpr int64_t kSmall = 64, kMany = 64, kFew = 12;  // fewer if images are large
  batch.resident = false;
  const std::string path = options.model_folder + "/preview.png";
  MT_RETURN_IF_ERROR(WriteFirst(path, options.image_size <= kSmall ? kMany : kFew, options, train, batch));
  return path;
}

}  // namespace mtrun::trainers
