// Reads the images of several micro-batches ahead, on its own threads and within a bound of bytes, into a
// ring of buffers that a device can copy from. Results do not depend on the threads or the caller.
// Thread-safe, except that only one thread at a time may call Take.
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
#include "datasets/packed/packed.h"
#include "trainers/input/image_bytes.h"
#include "trainers/input/read_pool.h"
#include "trainers/input/reading.h"

namespace mtrun::trainers {

class ReadAhead {
 public:
  struct Options {
    Reading reading;
    uint64_t seed = 0;
    at::Device device = at::Device(at::kCPU);  // destination of the buffers
    int threads = 1;
    int ahead = 4;                            // micro-batches, at most ...
    int64_t most_bytes = int64_t{512} << 20;  // ... and their bytes, at most; one is always read
  };
  /// Images of a micro-batch (none beyond a short last step) and their wanted size. Called on any thread.
  struct Request {
    std::vector<int64_t> ids;
    int size = 0;
  };
  using RequestOf = std::function<Request(int64_t step, int64_t micro_batch)>;

  /// `data` must outlive this.
  ReadAhead(const datasets::PackedSplit& data, const Options& options, RequestOf request_of);

  /// Announces that micro-batches begin .. end - 1 of `step` and of the steps after it will be taken in
  /// order. Some of `step` may have been taken already. Drops reads for other micro-batches.
  void Expect(int64_t step, int64_t begin, int64_t end);
  /// Returns the images of a micro-batch. If it was expected, its reads have been started. Images that were
  /// read before their shard was replaced are read again. If an image cannot be read and the data's mender
  /// replaces its shard, it is also read again. Throws c10::Error if an image cannot be read, and StatusError
  /// with the mender's status if the mender failed.
  ImageBytes Take(int64_t step, int64_t micro_batch);
  /// Does not read ahead micro-batches for which `skips` returns true. It may be called on any thread.
  void SkipIf(std::function<bool(int64_t step, int64_t micro_batch)> skips);
  /// Returns the number of micro-batches that are read or being read and have not been taken.
  int64_t held() const {
    const MutexLock lock(mutex_);
    return static_cast<int64_t>(ring_.size());
  }

 private:
  using Key = std::pair<int64_t, int64_t>;  // step, micro-batch
  struct Reads {
    ReadPool::TicketPtr ticket;
    std::shared_ptr<ImageBytes> bytes;
    int64_t replaced = 0;  // replaced shards of the data when it began
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
  int64_t begin_ ABSL_GUARDED_BY(mutex_) = 0, end_ ABSL_GUARDED_BY(mutex_) = 0;  // range of each step
  Key next_ ABSL_GUARDED_BY(mutex_) = {0, 0};                                    // next to be taken
  std::map<Key, Reads> ring_ ABSL_GUARDED_BY(mutex_);
  std::function<bool(int64_t step, int64_t micro_batch)> skips_ ABSL_GUARDED_BY(mutex_);  // null: none
  ReadPool pool_;  // last: its threads use what is above
};

}  // namespace mtrun::trainers
