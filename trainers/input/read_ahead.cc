#include "trainers/input/read_ahead.h"

#include <optional>

#include <c10/util/Exception.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "trainers/device/torch_status.h"
#include "trainers/device/transfer.h"
#include "trainers/random/random_stream.h"

namespace mtrun::trainers {

ReadAhead::ReadAhead(const datasets::PackedSplit& data, const Options& options, RequestOf request_of)
    : data_(data), options_(options), request_of_(std::move(request_of)), pool_(options.threads) {}

ReadAhead::Reads ReadAhead::Begin(const Request& request, const Key& key, datasets::PackedSplit::Held held,
                                  bool first) {
  const int64_t replaced = data_.replaced();
  const datasets::ImageSize size = ReadSize(data_, options_.reading, request.size);
  const auto n = static_cast<int64_t>(request.ids.size());
  auto bytes = std::make_shared<ImageBytes>();
  bytes->height = size.height;
  bytes->width = size.width;
  bytes->owner =
      HostBuffer({n, size.height, size.width, datasets::PackedSplit::channels()}, at::kByte, options_.device);
  bytes->packed = true;
  bytes->labels.resize(request.ids.size());
  auto* const pixels = bytes->owner.data_ptr<uint8_t>();
  for (int64_t i = 0; i < n; ++i) {
    bytes->images.push_back(pixels + i * bytes->bytes_per_image());
    bytes->gathered.Add(request.ids[i]);
  }
  const RandomStream stream(options_.seed, key.first, key.second, kReadPurpose);
  const auto ids = std::make_shared<std::vector<int64_t>>(request.ids);
  ReadPool::Job job;
  job.parts = n;
  job.announce = [this, ids] {
    for (const int64_t id : *ids) data_.WillNeed(id);
  };
  job.work = [this, ids, bytes, pixels, stream, size = request.size, held = std::move(held)](int64_t i) {
    const int64_t id = (*ids)[i];
    bytes->labels[i] = data_.label(id);
    return ReadImage(data_, options_.reading, id, size, stream, i, pixels + i * bytes->bytes_per_image());
  };
  return {pool_.Add(std::move(job), first), bytes, replaced};
}

ReadAhead::Key ReadAhead::After(const Key& key) const {
  const Key next(key.first, key.second + 1);
  const auto is_there = [&] {
    return ring_.count(next) != 0 || !request_of_(next.first, next.second).ids.empty();
  };
  return next.second < end_ && is_there() ? next : Key(key.first + 1, begin_);
}

void ReadAhead::SkipIf(std::function<bool(int64_t step, int64_t micro_batch)> skips) {
  const MutexLock lock(mutex_);
  skips_ = std::move(skips);
}

/// Returns the reads of a micro-batch, and starts them if necessary. Returns null if it has no images, is
/// skipped, or not all of its images have arrived.
ReadAhead::Reads* ReadAhead::Find(const Key& key) {
  if (skips_ && skips_(key.first, key.second)) return nullptr;
  const auto found = ring_.find(key);
  if (found != ring_.end()) return &found->second;
  const Request request = request_of_(key.first, key.second);
  if (request.ids.empty()) return nullptr;
  std::optional<datasets::PackedSplit::Held> held = data_.Hold(request.ids);
  if (!held) return nullptr;
  return &ring_.emplace(key, Begin(request, key, *std::move(held), /*first=*/false)).first->second;
}

/// Returns the next micro-batches and starts their reads.
std::set<ReadAhead::Key> ReadAhead::BeginNext() {
  std::set<Key> next;
  if (begin_ == end_) return next;
  int64_t left = options_.most_bytes, last = 0;
  Key key = next_;
  // A short step can lack these micro-batches.
  for (int tries = 0; tries < 2 * options_.ahead && static_cast<int>(next.size()) < options_.ahead; ++tries) {
    if (const Reads* const reads = Find(key)) {
      next.insert(key);
      last = static_cast<int64_t>(reads->bytes->owner.nbytes());
      left -= last;
    }
    if (left < last) break;
    key = After(key);
  }
  return next;
}

/// Starts the missing reads of the next micro-batches and drops the others.
void ReadAhead::Fill() {
  const std::set<Key> wanted = BeginNext();
  for (auto it = ring_.begin(); it != ring_.end();) {
    if (wanted.count(it->first) == 0) {
      pool_.Drop(it->second.ticket);
      it = ring_.erase(it);
    } else {
      ++it;
    }
  }
}

/// Drops reads that may come from a modified copy of a shard, if that copy has been replaced.
void ReadAhead::DropOutdated() {
  const int64_t replaced = data_.replaced();
  std::erase_if(ring_, [&](const auto& entry) {
    if (entry.second.replaced == replaced) return false;
    pool_.Drop(entry.second.ticket);
    return true;
  });
}

void ReadAhead::Expect(int64_t step, int64_t begin, int64_t end) {
  const MutexLock lock(mutex_);
  DropOutdated();
  const bool goes_on =
      begin == begin_ && end == end_ && next_ >= Key(step, begin) && next_ <= Key(step + 1, begin);
  begin_ = begin;
  end_ = end;
  if (!goes_on) next_ = {step, begin};
  Fill();
}

ReadAhead::Reads ReadAhead::TakeReads(const Key& key) {
  const auto& [step, micro_batch] = key;
  const MutexLock lock(mutex_);
  DropOutdated();
  Reads reads;
  const auto found = ring_.find(key);
  if (found != ring_.end()) {
    reads = found->second;
    ring_.erase(found);
  } else {
    const Request request = request_of_(step, micro_batch);
    std::optional<datasets::PackedSplit::Held> held = data_.Hold(request.ids);
    TORCH_CHECK(held, "images of the data set are not available");
    reads = Begin(request, key, *std::move(held), /*first=*/true);
  }
  if (micro_batch >= begin_ && micro_batch < end_) {
    next_ = After(key);
    Fill();
  }
  return reads;
}

/// Returns whether a new copy of a shard holds the images, one of which could not be read for this reason.
bool ReadAhead::Mended(const Key& key, const absl::Status& unread) const {
  const absl::StatusOr<bool> mended = data_.Mend(request_of_(key.first, key.second).ids);
  if (mended.ok()) return *mended;
  const absl::Status& why = mended.status();
  // The wait was ended for another reason than the image.
  if (absl::IsUnavailable(why) || absl::IsCancelled(why)) throw StatusError(why);
  throw StatusError(absl::Status(
      why.code(), absl::StrCat(unread.message(), "; it cannot be fetched again: ", why.message())));
}

ImageBytes ReadAhead::Take(int64_t step, int64_t micro_batch) {
  const Key key(step, micro_batch);
  Reads reads = TakeReads(key);
  absl::Status status = pool_.Wait(reads.ticket);
  if (!status.ok() && Mended(key, status)) {
    reads = TakeReads(key);
    status = pool_.Wait(reads.ticket);
  }
  TORCH_CHECK(status.ok(), std::string(status.message()));
  return *reads.bytes;
}

}  // namespace mtrun::trainers
