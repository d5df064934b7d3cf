// Converts the user's options for a remote set to a request to the fetcher.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "datasets/cache/set_client.h"

namespace mtrun::datasets {

struct RemoteOptions {
  std::string cache = "";        // path of a folder, "": DefaultCache
  double cache_gib = 0;          // limit of the whole cache, 0: as much as the disk holds
  double fetch_ahead_gib = 4;    // limit per node of data fetched for later steps, 0: none
  std::string bearer_file = "";  // bearer token for a third-party server, "": none
  bool redirects = false;        // follow redirects to other hosts
};

/// Adds the data key (FindDataKey), if there is one, and the AWS_* variables. kInvalidArgument: `url` is not
/// a URL, the variable holds no key, or a file cannot be read; kUnavailable as for FindDataKey.
absl::StatusOr<SetRequest> MakeSetRequest(const std::string& url, const RemoteOptions& options,
                                          const EnvironmentMap& environment);

/// kInvalidArgument if a set of `bytes` exceeds the cache's limit; the message says what to do.
absl::Status CheckFits(const std::string& url, int64_t bytes, int64_t cache_bytes);

}  // namespace mtrun::datasets
