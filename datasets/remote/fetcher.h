// The one process per machine that fetches data sets for all others: brings files into the cache, verified,
// in the order in which its clients need them. It may be killed at any time: a client that needs a file
// starts another fetcher, which continues partial files.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"

namespace mtrun::datasets {

struct FetcherOptions {
  std::string cache;                          // path of a folder
  size_t connections = 4;                     // concurrent, over all sets
  Duration linger = std::chrono::seconds(5);  // exits after this time without a client
};

/// Serves until no client has been connected for options.linger. Calls `ready` once clients can connect.
/// Returns OK too if another process is the fetcher of this cache.
absl::Status RunFetcher(const FetcherOptions& options, const std::function<void()>& ready);

}  // namespace mtrun::datasets
