// Makes the inputs of the next micro-batch on a thread of its own while the training thread computes.
// Training thread only.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "trainers/engine/step.h"

namespace mtrun::engine {

class PrefetchedShards : public ShardSource {
 public:
  /// `source` must outlive this; its Inputs is never called on two threads at once, everything else may be.
  /// `device`: where its batches go, in the stream that is the current one now.
  PrefetchedShards(ShardSource& source, at::Device device);
  ~PrefetchedShards() override;

  int64_t shards() const override { return source_.shards(); }
  int64_t SamplesInStep(int64_t step) const override { return source_.SamplesInStep(step); }
  int64_t SamplesInShard(int64_t step, int64_t shard) const override {
    return source_.SamplesInShard(step, shard);
  }
  Batch Make(int64_t step, int64_t shard) override { return Compose(Inputs(step, shard)); }
  /// Throws what the source's throws. What was made ahead for another call is dropped.
  std::vector<at::Tensor> Inputs(int64_t step, int64_t shard) override;
  Batch Compose(const std::vector<at::Tensor>& inputs) const override { return source_.Compose(inputs); }
  void Ahead(int64_t step, int64_t shard) override;

 private:
  struct Promised {
    int64_t step, shard;
    std::future<std::vector<at::Tensor>> inputs;
  };
  void Run();

  ShardSource& source_;
  const at::Stream stream_;
  std::optional<Promised> promised_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::packaged_task<std::vector<at::Tensor>()>>
      task_;  // this and the following: guarded by mutex_
  bool closing_ = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace mtrun::engine
