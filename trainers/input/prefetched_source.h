// Makes the inputs of the next micro-batch on a thread of its own while the training thread computes, and
// sends them to the device in a stream of its own: the training thread's may be computing, or in the middle
// of a capture, which must not hold them. Training thread only.
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
  /// `source` must outlive this; its Inputs is never called on two threads at once, everything else may be.
  /// `device`: where its batches go.
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
  /// Throws what the source's throws here: what failed when it was made ahead is tried once more, and so is
  /// what was made of data that have been replaced since. What was made ahead for another call is dropped.
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
    int64_t replaced;  // of the source, before it was made
    std::future<Sent> sent;
  };
  Sent MakeAhead(int64_t step, int64_t micro_batch);
  std::optional<Sent> Made(Promised promised, int64_t step, int64_t micro_batch) const;
  BatchInputs Take(Sent sent) const;
  void Run();

  MicroBatchSource& source_;
  const at::Device device_;
  const at::Stream stream_;  // of the copies
  std::optional<Promised> promised_;

  Mutex mutex_;
  Condition changed_;
  std::optional<std::packaged_task<Sent()>> task_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace mtrun::trainers
