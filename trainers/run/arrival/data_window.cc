#include "trainers/run/arrival/data_window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "datasets/cache/set_request.h"

namespace mtrun::trainers {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
// Windows of a stream that are needed at a time: the current one, the next one, and the rest of the previous
// one or of one on its way.
constexpr int64_t kWindowsAtATime = 3;

/// Sizes of the parts of a set, in bytes.
struct Sizes {
  int64_t train = 0, largest_shard = 0;
  int64_t others = 0;  // always kept, because evaluations need them
  int64_t all() const { return train + others; }
};

/// Returns the number of training shards that evaluations read, if the set has no other images for them.
size_t EvaluatedShards(const datasets::Index& index, int64_t eval_images) {
  const auto train = index.splits.find("train");
  if (train == index.splits.end() || index.splits.count("test") + index.splits.count("val") > 0) return 0;
  size_t shards = 0;
  int64_t images = 0;
  for (const datasets::ShardEntry& shard : train->second.shards) {
    if (eval_images > 0 && images >= eval_images) break;
    images += shard.images;
    ++shards;
  }
  return shards;
}

Sizes SizesOf(const datasets::Index& index, size_t evaluated_shards) {
  Sizes sizes;
  for (const auto& [name, split] : index.splits) {
    for (size_t i = 0; i < split.shards.size(); ++i) {
      const int64_t bytes = split.shards[i].bytes;
      const bool trains = name == "train" && i >= evaluated_shards;
      (trains ? sizes.train : sizes.others) += bytes;
      if (trains) sizes.largest_shard = std::max(sizes.largest_shard, bytes);
    }
  }
  return sizes;
}

/// Returns the number of parts of the node's share.
int64_t PartsOf(const DataNeeds& needs) { return std::max<int64_t>(1, needs.workers); }

/// Returns what a cache must hold if the node computes all micro-batches, as a single node does.
int64_t LeastCache(const Sizes& sizes, const DataNeeds& needs) {
  const int64_t parts = PartsOf(needs);
  const int64_t streams = (needs.plan.micro_batches() + parts - 1) / parts;  // per worker
  const int64_t shards = parts * streams * needs.window * kWindowsAtATime;
  return sizes.others + std::min(shards * sizes.largest_shard, sizes.train);
}

std::string GibUpwards(int64_t bytes) {
  return absl::StrFormat("%.3g", (static_cast<double>(bytes) / kGib) * 1.01 + 0.001);
}

absl::Status CheckCache(const std::string& url, const Sizes& sizes, const DataNeeds& needs) {
  const int64_t least = LeastCache(sizes, needs);
  if (needs.arrives && needs.cache_bytes >= least) return absl::OkStatus();
  const std::string refused(datasets::CheckFits(url, sizes.all(), needs.cache_bytes).message());
  if (!needs.arrives) {
    return absl::InvalidArgumentError(absl::StrCat(
        refused, "; or train with --shuffle streams, without --validation_share and --preview, which ",
        "needs ", GibUpwards(least), " GiB at a time"));
  }
  return absl::InvalidArgumentError(absl::StrCat(refused, "; --shuffle streams needs ", GibUpwards(least),
                                                 " GiB at a time, less with a smaller --shuffle_window"));
}

}  // namespace

absl::StatusOr<DataBounds> BoundsOf(const std::string& url, const datasets::Index& index,
                                    const DataNeeds& needs) {
  const size_t evaluated = EvaluatedShards(index, needs.eval_images);
  const Sizes sizes = SizesOf(index, evaluated);
  DataBounds bounds;
  if (needs.cache_bytes > 0 && needs.cache_bytes < sizes.all()) {
    MT_RETURN_IF_ERROR(CheckCache(url, sizes, needs));
    bounds.evaluated_shards = evaluated;
    bounds.hold = (needs.cache_bytes - sizes.others) / PartsOf(needs);
  }
  if (needs.fetch_ahead_gib > 0)
    bounds.ahead = static_cast<int64_t>(needs.fetch_ahead_gib * kGib) / PartsOf(needs);
  bounds.ahead = std::min(bounds.ahead, bounds.hold);
  return bounds;
}

DataWindow WindowOf(const std::vector<NeededFile>& order, const std::set<std::string>& now,
                    const DataBounds& bounds) {
  DataWindow window;
  int64_t sum = 0;
  for (const NeededFile& needed : order) {
    if (needed.is_training && now.count(needed.file) != 0) sum += needed.bytes;
  }
  for (const NeededFile& needed : order) {
    const bool is_now = now.count(needed.file) != 0;
    if (needed.is_training && !is_now) sum += needed.bytes;
    if (is_now || !needed.is_training || sum <= bounds.hold) window.keep.insert(needed.file);
    if (is_now || sum <= bounds.ahead) window.fetch.push_back(needed.file);
  }
  return window;
}

}  // namespace mtrun::trainers
