#include "trainers/run/arrival/data_arrival.h"

#include <algorithm>

#include "base/status_macros.h"
#include "datasets/cache/cache_layout.h"
#include "datasets/packed/index.h"

namespace mtrun::trainers {
namespace {

using datasets::PackedSplit;
using datasets::SetClient;

// Steps whose images must be there before a worker joins the others, so that they do not soon wait for it.
constexpr int64_t kFirstSteps = 2;
// Interval of Follow: the files that are needed next change only a little with each step.
constexpr Duration kLookEvery = std::chrono::seconds(1);
// Interval of the check that a step's file is as it was verified. A stamp can be on another machine.
constexpr Duration kCheckEvery = std::chrono::seconds(1);

datasets::StreamShards ShardsOf(const PackedSplit& train, const DataArrival::Order& order) {
  return datasets::ShardsInOrder(order.shuffle, {train.shard_counts(), order.window});
}

}  // namespace

DataArrival::DataArrival(SetClient& client, const std::string& url, const std::vector<PackedSplit*>& splits,
                         const Order& order, const DataBounds& bounds)
    : client_(client),
      splits_(splits),
      settings_(order),
      bounds_(bounds),
      sampler_(order.seed, order.plan, ShardsOf(*splits.front(), order)),
      order_(order.seed, order.plan, ShardsOf(*splits.front(), order)),
      news_(url) {
  std::map<std::string, int64_t> bytes;
  for (const auto& [file, entry] : datasets::ShardsOf(client.index())) bytes[file] = entry.bytes;
  for (PackedSplit* split : splits) {
    const size_t shards = split->shard_counts().size();
    for (size_t i = 0; i < shards; ++i) {
      const std::string name = datasets::ShardFile(split->name(), i);
      File& file = files_[name];
      file.shards.emplace_back(split, i);
      file.bytes = bytes.at(name);
      file.is_training = split->name() == splits.front()->name() && i >= bounds.evaluated_shards;
      missing_.insert(name);
    }
    split->set_mender([this, split](absl::Span<const int64_t> ids) { return Mend(*split, ids); });
  }
}

/// Returns the worker's part, even with --sync_bn: groups normalised together exchange sums, not images.
MicroBatchRange DataArrival::OwnOf(int rank, int world_size) const {
  return MicroBatchesOf(settings_.plan.micro_batches(), rank, world_size);
}

std::vector<NeededFile> DataArrival::InOrderOfNeed(int64_t step, int rank, int world_size) const {
  const int64_t each = sampler_.steps_per_epoch();
  const MicroBatchRange own = OwnOf(rank, world_size);
  const datasets::ShardsAhead ahead = order_.Ahead(step / each, step % each, own.begin, own.end);
  const std::string& train = splits_.front()->name();
  std::vector<NeededFile> files;
  std::set<std::string> there;
  const auto add = [&](const std::string& split, int64_t number) {
    std::string name = datasets::ShardFile(split, static_cast<size_t>(number));
    if (!there.insert(name).second) return;
    const File& file = files_.at(name);
    files.push_back({std::move(name), file.bytes, file.is_training});
  };
  for (const int64_t shard : ahead.this_epoch) add(train, shard);
  // An epoch ends with an evaluation.
  for (size_t i = 0; i < bounds_.evaluated_shards; ++i) add(train, static_cast<int64_t>(i));
  for (const PackedSplit* split : splits_) {
    const auto shards = static_cast<int64_t>(split->shard_counts().size());
    for (int64_t i = 0; i < shards && split->name() != train; ++i) add(split->name(), i);
  }
  for (const int64_t shard : ahead.later) add(train, shard);
  return files;
}

std::set<std::string> DataArrival::FilesOf(int64_t step, MicroBatchRange micro_batches) const {
  const int64_t each = sampler_.steps_per_epoch();
  const PackedSplit& train = *splits_.front();
  std::set<size_t> shards;  // fewer than images
  for (int64_t v = micro_batches.begin; v < micro_batches.end; ++v) {
    for (const int64_t id : sampler_.MicroBatch(step / each, step % each, v))
      shards.insert(train.shard_of(id));
  }
  std::set<std::string> files;
  for (const size_t shard : shards) files.insert(datasets::ShardFile(train.name(), shard));
  return files;
}

/// Returns the files that are read before the next call of Follow.
std::set<std::string> DataArrival::FirstFiles(int64_t step, int rank, int world_size) const {
  std::set<std::string> files;
  for (int64_t i = step; i < step + kFirstSteps; ++i) files.merge(FilesOf(i, OwnOf(rank, world_size)));
  return files;
}

absl::Status DataArrival::Follow(int64_t step, int rank, int world_size) {
  looked_ = MonotonicNow();
  const DataWindow window =
      WindowOf(InOrderOfNeed(step, rank, world_size), FirstFiles(step, rank, world_size), bounds_);
  if (!bounds_.keeps_all()) DropAllBut(window.keep);
  std::vector<std::string> files;
  for (const std::string& file : window.fetch) {
    if (missing_.count(file) != 0) files.push_back(file);
  }
  return client_.Want(std::move(files));
}

absl::Status DataArrival::AwaitFirst(int64_t step, int rank, int world_size, bool warm_up,
                                     const Watch& watch) {
  watch_ = watch;
  MT_RETURN_IF_ERROR(Follow(step, rank, world_size));
  std::set<std::string> files = FirstFiles(step, rank, world_size);
  if (warm_up) files.merge(FilesOf(0, {0, 1}));
  return Await(files, watch);
}

absl::Status DataArrival::AwaitStep(int64_t step, int rank, int world_size, const Watch& watch) {
  watch_ = watch;
  const std::set<std::string> files = FilesOf(step, OwnOf(rank, world_size));
  MT_RETURN_IF_ERROR(CheckNowAndThen(files, watch));
  if (missing_.empty() && bounds_.keeps_all()) return absl::OkStatus();
  MT_RETURN_IF_ERROR(Add(client_.Collect()));
  const auto is_missing = [this](const std::string& file) { return missing_.count(file) != 0; };
  const bool waits = std::any_of(files.begin(), files.end(), is_missing);
  if (waits || MonotonicNow() - looked_ >= kLookEvery) MT_RETURN_IF_ERROR(Follow(step, rank, world_size));
  return Await(files, watch);
}

absl::Status DataArrival::AwaitImages(const PackedSplit& split, int64_t size, const Watch& watch) {
  std::set<std::string> files;
  for (size_t i = 0; size > 0 && i <= split.shard_of(size - 1); ++i)
    files.insert(datasets::ShardFile(split.name(), i));
  MT_RETURN_IF_ERROR(ReplaceDamaged(files, watch).status());
  return Await(files, watch);
}

absl::Status DataArrival::AwaitAll(const Watch& watch) {
  watch_ = watch;
  return Await(std::set<std::string>(missing_), watch);
}

absl::Status DataArrival::Await(const std::set<std::string>& files, const Watch& watch) {
  std::vector<std::string> needed;
  for (const std::string& file : files) {
    if (missing_.count(file) != 0) needed.push_back(file);
  }
  if (needed.empty()) return absl::OkStatus();
  MT_RETURN_IF_ERROR(AwaitHeld(needed, watch));
  return Add(needed);
}

absl::Status DataArrival::AwaitHeld(const std::vector<std::string>& files, const Watch& watch) {
  const TimePoint began = MonotonicNow();
  const absl::Status came = client_.Await(files, [&](const SetClient::Wait& wait) {
    MT_RETURN_IF_ERROR(news_(wait));
    return watch ? watch() : absl::OkStatus();
  });
  const Duration waited = MonotonicNow() - began;
  waited_ += waited;
  MT_RETURN_IF_ERROR(came);
  news_.Over(waited);
  return absl::OkStatus();
}

/// Each file has its own interval: if no step has read it for long, it is checked before the next step does.
absl::Status DataArrival::CheckNowAndThen(const std::set<std::string>& files, const Watch& watch) {
  const TimePoint now = MonotonicNow();
  std::set<std::string> due;
  for (const std::string& file : files) {
    const auto checked = checked_.find(file);
    if (checked == checked_.end() || now - checked->second >= kCheckEvery) due.insert(file);
  }
  MT_RETURN_IF_ERROR(ReplaceDamaged(due, watch).status());
  for (const std::string& file : due) checked_[file] = now;  // the check is repeated if the wait was ended
  return absl::OkStatus();
}

/// Replaces files that a process has written to, or that a disk has visibly damaged, before more steps use
/// them. Returns true if another copy has replaced such a file; images that were read ahead are then read
/// again (PackedSplit::replaced).
absl::StatusOr<bool> DataArrival::ReplaceDamaged(const std::set<std::string>& files, const Watch& watch) {
  const std::vector<std::string> damaged = client_.Damaged(files);
  if (damaged.empty()) return false;
  MT_RETURN_IF_ERROR(AwaitHeld(damaged, watch));
  for (const std::string& file : damaged) {
    for (const auto& [split, number] : files_.at(file).shards) MT_RETURN_IF_ERROR(split->Replace(number));
  }
  client_.ForgetDamaged(damaged);
  return true;
}

/// Handles unreadable images of a step. Read-ahead threads get false; the step that takes the images retries.
absl::StatusOr<bool> DataArrival::Mend(const PackedSplit& split, absl::Span<const int64_t> ids) {
  if (std::this_thread::get_id() != thread_) return false;
  std::set<std::string> files;
  for (const int64_t id : ids) files.insert(datasets::ShardFile(split.name(), split.shard_of(id)));
  return ReplaceDamaged(files, watch_);
}

absl::Status DataArrival::Add(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (missing_.erase(file) == 0) continue;
    for (const auto& [split, number] : files_.at(file).shards) MT_RETURN_IF_ERROR(split->Add(number));
  }
  return absl::OkStatus();
}

/// Drops all files but `keep`. If a thread still reads a file, the file stays until the next call.
void DataArrival::DropAllBut(const std::set<std::string>& keep) {
  std::vector<std::string> gone;
  for (const auto& [name, file] : files_) {
    if (keep.count(name) != 0 || missing_.count(name) != 0) continue;
    const bool dropped = std::all_of(file.shards.begin(), file.shards.end(),
                                     [](const auto& shard) { return shard.first->Drop(shard.second); });
    if (dropped) gone.push_back(name);
  }
  missing_.insert(gone.begin(), gone.end());
  client_.Release(gone);
}

}  // namespace mtrun::trainers
