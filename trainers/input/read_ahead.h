// Reads the images of several micro-batches ahead, on threads of its own and within a bound of bytes, into a
// ring of buffers that a device can copy from. What it makes depends on neither threads nor who asks.
// Thread-safe, but that one thread at a time takes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "datasets/packed.h"
#include "trainers/input/image_bytes.h"
#include "trainers/input/read_pool.h"
#include "trainers/input/reading.h"

namespace mtrun::trainers {

class ReadAhead {
 public:
  struct Options {
    Reading reading;
    uint64_t seed = 0;
    at::Device device = at::Device(at::kCPU);  // that the buffers are copied to
    int threads = 1;
    int ahead = 4;                            // micro-batches ...
    int64_t most_bytes = int64_t{512} << 20;  // ... of at most so many bytes together; one in any case
  };
  /// Which images a micro-batch has, none beyond a short last step, and at which size they are wanted. Is
  /// called on any thread.
  struct Request {
    std::vector<int64_t> ids;
    int size = 0;
  };
  using RequestOf = std::function<Request(int64_t step, int64_t micro_batch)>;

  /// `data` must outlive this.
  ReadAhead(const datasets::PackedSplit& data, const Options& options, RequestOf request_of);

  /// From now on micro-batches begin .. end - 1 of `step` and of the steps after it will be taken, one after
  /// the other; some of `step` may have been taken already. What was read for others is dropped.
  void Expect(int64_t step, int64_t begin, int64_t end);
  /// The images of a micro-batch: those that were expected are there or under way. What was read before a
  /// shard was replaced is read again, and so is what cannot be read where the data's mender has mended it.
  /// Throws c10::Error when an image cannot be read, and StatusError with the mender's where that has failed.
  ImageBytes Take(int64_t step, int64_t micro_batch);
  /// Micro-batches that are there or under way, not taken yet.
  int64_t held() const {
    const MutexLock lock(mutex_);
    return static_cast<int64_t>(ring_.size());
  }

 private:
  using Key = std::pair<int64_t, int64_t>;  // step, micro-batch
  struct Reads {
    ReadPool::TicketPtr ticket;
    std::shared_ptr<ImageBytes> bytes;
    int64_t replaced = 0;  // shards of the data, when it began
  };
  Reads Begin(const Request& request, const Key& key, datasets::PackedSplit::Held held, bool first);
  Reads* Find(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Reads TakeReads(const Key& key);
  void DropOutdated() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Mended(const Key& key, const absl::Status& unread) const;
  std::set<Key> BeginNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fill() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Key After(const Key& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const datasets::PackedSplit& data_;
  const Options options_;
  const RequestOf request_of_;

  mutable Mutex mutex_;
  int64_t begin_ ABSL_GUARDED_BY(mutex_) = 0, end_ ABSL_GUARDED_BY(mutex_) = 0;  // of each step
  Key next_ ABSL_GUARDED_BY(mutex_) = {0, 0};                                    // that will be taken
  std::map<Key, Reads> ring_ ABSL_GUARDED_BY(mutex_);
  ReadPool pool_;  // last: its threads use what is above
};

}  // namespace mtrun::trainers
