// From what a user says about a set that lies elsewhere to what the fetcher is asked for.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "datasets/cache/set_client.h"

namespace mtrun::datasets {

struct RemoteOptions {
  std::string cache = "";        // folder, "": DefaultCache
  double cache_gib = 0;          // of the whole cache, 0: as much as the disk holds
  double fetch_ahead_gib = 4;    // of a node, of what its steps need later, 0: no bound
  std::string bearer_file = "";  // what a server of others wants to be shown, "": nothing
  bool redirects = false;        // to other hosts
};

/// With the data key of the environment (or of the cluster's token) where there is one, and the AWS_*
/// variables. kInvalidArgument: `url` is none, or a file cannot be read.
absl::StatusOr<SetRequest> MakeSetRequest(const std::string& url, const RemoteOptions& options,
                                          const EnvironmentMap& environment);

/// kInvalidArgument where a set of `bytes` can never be in the cache as a whole, with what can be done.
absl::Status CheckFits(const std::string& url, int64_t bytes, int64_t cache_bytes);

}  // namespace mtrun::datasets
