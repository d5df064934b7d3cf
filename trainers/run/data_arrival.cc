#include "trainers/run/data_arrival.h"

#include "base/status_macros.h"
#include "datasets/index.h"

namespace mtrun::trainers {
namespace {

using datasets::PackedSplit;
using datasets::SetClient;

// Of which everything is there before a worker meets the others, so that they do not soon wait for it.
constexpr int64_t kFirstSteps = 2;

datasets::StreamShards ShardsOf(const PackedSplit& train, const DataArrival::Order& order) {
  return {train.shard_counts(), order.window};
}

}  // namespace

DataArrival::DataArrival(SetClient& client, const std::string& url, const std::vector<PackedSplit*>& splits,
                         const Order& order)
    : client_(client),
      splits_(splits),
      settings_(order),
      sampler_(order.seed, order.plan, ShardsOf(*splits.front(), order)),
      order_(order.seed, order.plan, ShardsOf(*splits.front(), order)),
      news_(url) {
  for (PackedSplit* split : splits) {
    const size_t shards = split->shard_counts().size();
    for (size_t i = 0; i < shards; ++i)
      missing_[datasets::ShardFile(split->name(), i)].emplace_back(split, i);
  }
}

/// Groups of micro-batches that are normalised together are dealt out in another way.
MicroBatchRange DataArrival::NeededBy(int rank, int world_size) const {
  const int64_t all = settings_.plan.micro_batches();
  return settings_.sync_micro_batches > 0 ? MicroBatchRange{0, all} : MicroBatchesOf(all, rank, world_size);
}

absl::Status DataArrival::Follow(int64_t step, int rank, int world_size) {
  const int64_t each = sampler_.steps_per_epoch();
  const MicroBatchRange own = NeededBy(rank, world_size);
  const datasets::ShardsAhead ahead = order_.Ahead(step / each, step % each, own.begin, own.end);
  const std::string& train = splits_.front()->name();
  std::vector<std::string> files;
  const auto add = [&](const std::string& split, int64_t number) {
    const std::string file = datasets::ShardFile(split, static_cast<size_t>(number));
    if (missing_.count(file) != 0) files.push_back(file);
  };
  for (const int64_t shard : ahead.this_epoch) add(train, shard);
  // An epoch ends with an evaluation.
  for (const PackedSplit* split : splits_) {
    const auto shards = static_cast<int64_t>(split->shard_counts().size());
    for (int64_t i = 0; i < shards && split->name() != train; ++i) add(split->name(), i);
  }
  for (const int64_t shard : ahead.later) add(train, shard);
  return client_.Want(std::move(files));
}

void DataArrival::AddFilesOf(int64_t step, MicroBatchRange micro_batches,
                             std::set<std::string>& files) const {
  const int64_t each = sampler_.steps_per_epoch();
  const PackedSplit& train = *splits_.front();
  for (int64_t v = micro_batches.begin; v < micro_batches.end; ++v) {
    for (const int64_t id : sampler_.MicroBatch(step / each, step % each, v)) {
      if (!train.has(id)) files.insert(datasets::ShardFile(train.name(), train.shard_of(id)));
    }
  }
}

absl::Status DataArrival::AwaitFirst(int64_t step, int rank, int world_size, bool warm_up,
                                     const Watch& watch) {
  MT_RETURN_IF_ERROR(Follow(step, rank, world_size));
  std::set<std::string> files;
  for (int64_t i = step; i < step + kFirstSteps; ++i) AddFilesOf(i, NeededBy(rank, world_size), files);
  if (warm_up) AddFilesOf(0, {0, 1}, files);
  return Await(files, watch);
}

absl::Status DataArrival::AwaitStep(int64_t step, int rank, int world_size, const Watch& watch) {
  if (missing_.empty()) return absl::OkStatus();
  MT_RETURN_IF_ERROR(Add(client_.Collect()));
  std::set<std::string> files;
  AddFilesOf(step, NeededBy(rank, world_size), files);
  return Await(files, watch);
}

absl::Status DataArrival::AwaitImages(const PackedSplit& split, int64_t size, const Watch& watch) {
  std::set<std::string> files;
  for (size_t i = 0; size > 0 && i <= split.shard_of(size - 1); ++i)
    files.insert(datasets::ShardFile(split.name(), i));
  return Await(files, watch);
}

absl::Status DataArrival::AwaitAll(const Watch& watch) {
  std::set<std::string> files;
  for (const auto& [file, shards] : missing_) files.insert(file);
  return Await(files, watch);
}

absl::Status DataArrival::Await(const std::set<std::string>& files, const Watch& watch) {
  std::vector<std::string> needed;
  for (const std::string& file : files) {
    if (missing_.count(file) != 0) needed.push_back(file);
  }
  if (needed.empty()) return absl::OkStatus();
  const TimePoint began = MonotonicNow();
  const absl::Status came = client_.Await(needed, [&](const SetClient::Wait& wait) {
    MT_RETURN_IF_ERROR(news_(wait));
    return watch ? watch() : absl::OkStatus();
  });
  const Duration waited = MonotonicNow() - began;
  waited_ += waited;
  MT_RETURN_IF_ERROR(came);
  news_.Over(waited);
  return Add(needed);
}

absl::Status DataArrival::Add(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const auto found = missing_.find(file);
    if (found == missing_.end()) continue;
    for (const auto& [split, number] : found->second) MT_RETURN_IF_ERROR(split->Add(number));
    missing_.erase(found);
  }
  return absl::OkStatus();
}

}  // namespace mtrun::trainers
