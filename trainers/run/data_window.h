// Of a set that lies on a server: which of its files a worker fetches ahead of its steps, and which it keeps
// where the cache is smaller than the set. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/batch_plan.h"
#include "datasets/index.h"

namespace mtrun::trainers {

/// Bytes of training shards, of one worker.
struct DataBounds {
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  int64_t ahead = kAll;  // that are fetched before a step needs them
  int64_t hold = kAll;   // that are kept: a smaller cache has the next ones, and is filled again and again
  size_t evaluated_shards =
      0;  // the first so many are kept all the time, beside those: evaluations need them
  bool keeps_all() const { return hold == kAll; }
  bool operator==(const DataBounds&) const = default;
};

/// What decides the bounds.
struct DataNeeds {
  int64_t cache_bytes = 0;     // what the whole cache may hold, 0: as much as the disk
  double fetch_ahead_gib = 0;  // of the node, 0: no bound
  bool arrives = false;        // the run may train while its data comes (TrainsWhileDataComes)
  datasets::BatchPlan plan = {};
  int64_t window = 1;       // shards that a stream mixes at a time
  int64_t workers = 1;      // of this node, which need different shards
  int64_t eval_images = 0;  // that an evaluation takes, 0: all of its split
};

/// The bounds of each worker of the node. kInvalidArgument: the cache can never hold what is needed at a
/// time; the message has the ways out. `url` is for it.
absl::StatusOr<DataBounds> BoundsOf(const std::string& url, const datasets::Index& index,
                                    const DataNeeds& needs);

/// A file in the order in which it is needed.
struct NeededFile {
  std::string file;
  int64_t bytes = 0;
  bool is_training = true;  // alone: those that an evaluation needs are kept, whatever the bounds
};
/// Which of them are to be here: `fetch` in their order, `keep` what may stay. `now`: what the next steps
/// need is among both.
struct DataWindow {
  std::vector<std::string> fetch;
  std::set<std::string> keep;
};
DataWindow WindowOf(const std::vector<NeededFile>& order, const std::set<std::string>& now,
                    const DataBounds& bounds);

}  // namespace mtrun::trainers
