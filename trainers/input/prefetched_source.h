// Makes the inputs of the next micro-batch on its own thread while the training thread computes, and copies
// them to the device in its own stream. The training thread's stream can be busy, or in a capture that must
// not contain the copies. Training thread only.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <c10/core/Event.h>

#include "base/mutex.h"
#include "trainers/input/micro_batch_source.h"

namespace mtrun::trainers {

class PrefetchedSource : public MicroBatchSource {
 public:
  /// `source` must outlive this. Its Inputs is never called on two threads at once; its other functions can
  /// be. `device`: destination of the batches.
  PrefetchedSource(MicroBatchSource& source, at::Device device);
  ~PrefetchedSource() override;

  int64_t micro_batches() const override { return source_.micro_batches(); }
  int64_t SamplesInStep(int64_t step) const override { return source_.SamplesInStep(step); }
  int64_t SamplesInMicroBatch(int64_t step, int64_t micro_batch) const override {
    return source_.SamplesInMicroBatch(step, micro_batch);
  }
  bool Has(int64_t step, int64_t micro_batch) const override { return source_.Has(step, micro_batch); }
  int64_t Replaced() const override { return source_.Replaced(); }
  Batch Make(int64_t step, int64_t micro_batch) override;
  Batch Empty(int64_t step) override { return source_.Empty(step); }
  /// Throws errors of the source. Inputs that failed when they were made ahead are tried once more, and
  /// inputs from data that has been replaced since are made again. Inputs for another call are dropped.
  BatchInputs Inputs(int64_t step, int64_t micro_batch) override;
  Batch Compose(const std::vector<at::Tensor>& inputs) const override { return source_.Compose(inputs); }
  void Ahead(int64_t step, int64_t micro_batch) override;
  void Expect(int64_t step, int64_t begin, int64_t end) override { source_.Expect(step, begin, end); }

 private:
  struct Sent {
    BatchInputs inputs;
    std::shared_ptr<c10::Event> arrived;  // null on the CPU
  };
  struct Promised {
    int64_t step, micro_batch;
    int64_t replaced;  // Replaced() of the source before it was made
    std::future<Sent> sent;
  };
  Sent MakeAhead(int64_t step, int64_t micro_batch);
  std::optional<Sent> Made(Promised promised, int64_t step, int64_t micro_batch) const;
  BatchInputs Take(Sent sent) const;
  void Run();

  MicroBatchSource& source_;
  const at::Device device_;
  const at::Stream stream_;  // for the copies
  std::optional<Promised> promised_;

  Mutex mutex_;
  Condition changed_;
  std::optional<std::packaged_task<Sent()>> task_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace mtrun::trainers
