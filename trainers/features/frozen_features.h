// Keeps what the frozen part of a task's network computes from the images of a run, beside the run, so that it
// computes each image once. Training thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "trainers/device/amp.h"
#include "trainers/features/feature_source.h"
#include "trainers/features/kept_features.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

class FrozenFeatures {
 public:
  struct Options {
    std::string folder;      // of the run
    std::string depends_on;  // everything but weights and threads that the features depend on, as text
    Precision precision = Precision::kFp32;
    int64_t micro_batch = 1;  // images
    at::ScalarType dtype = at::kFloat;
    at::Device device = at::Device(at::kCPU);
  };

  /// REQUIRES: task.features() > 0. `task` must outlive this and what it makes.
  FrozenFeatures(Task& task, Options options);

  /// Makes a source of features. `order` and `images`: as in FeatureSource.
  std::unique_ptr<MicroBatchSource> SourceOver(DatasetSource& order, MicroBatchSource& images, int64_t size);
  /// Makes batches of features for evaluations of a split. `name`: names its file.
  std::unique_ptr<ImageBatches> BatchesOver(std::unique_ptr<ImageBatches> images, int64_t size,
                                            const std::string& name);
  /// Keeps features from now on. Call at the begin of each generation: the weights may have come from another
  /// member or a checkpoint.
  void Enter();
  /// Removes the files of a complete run.
  void Remove();

 private:
  KeptFeatures& Add(const std::string& name, int64_t size);
  ComputeFeatures Compute() const;
  uint64_t Key() const;

  Task& task_;
  const Options options_;
  uint64_t key_ = 0;                                         // 0: nothing is kept yet
  std::deque<std::pair<std::string, KeptFeatures>> splits_;  // file, features
};

}  // namespace mtrun::trainers
