// For a set on a server: the files that a worker fetches ahead of its steps, and those that it keeps if the
// cache is smaller than the set. Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/order/batch_plan.h"
#include "datasets/packed/index.h"

namespace mtrun::trainers {

/// Bytes of training shards for one worker.
struct DataBounds {
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  int64_t ahead = kAll;  // fetched before a step needs them
  int64_t hold = kAll;   // kept: a smaller cache holds the next ones, and is refilled again and again
  // Number of leading shards that are always kept, in addition to `hold`, because evaluations need them.
  size_t evaluated_shards = 0;
  bool keeps_all() const { return hold == kAll; }
  bool operator==(const DataBounds&) const = default;
};

/// Inputs of BoundsOf.
struct DataNeeds {
  int64_t cache_bytes = 0;     // capacity of the whole cache; 0: limited by the disk
  double fetch_ahead_gib = 0;  // per node; 0: unlimited
  bool arrives = false;        // the run can train while its data arrives (TrainsWhileDataComes)
  datasets::BatchPlan plan = {};
  int64_t window = 1;       // shards that a stream mixes at a time
  int64_t workers = 1;      // on this node; each needs different shards
  int64_t eval_images = 0;  // per evaluation; 0: all of its split
};

/// Returns the bounds of each worker of the node. Returns kInvalidArgument if the cache can never hold what
/// is needed at a time; the message names `url` and the ways out.
absl::StatusOr<DataBounds> BoundsOf(const std::string& url, const datasets::Index& index,
                                    const DataNeeds& needs);

/// A file in the order of need.
struct NeededFile {
  std::string file;
  int64_t bytes = 0;
  bool is_training = true;  // only for training; files that an evaluation needs are always kept
};
/// The files to `fetch`, in order of need, and those to `keep`. Both include what the next steps need
/// (`now`).
struct DataWindow {
  std::vector<std::string> fetch;
  std::set<std::string> keep;
};
DataWindow WindowOf(const std::vector<NeededFile>& order, const std::set<std::string>& now,
                    const DataBounds& bounds);

}  // namespace mtrun::trainers
