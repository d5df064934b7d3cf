// The one process of a machine that fetches data sets for all others: brings files into the cache, verified,
// in the order in which its clients need them. It may be killed at any moment: whoever needs a file starts
// another, which continues what has arrived.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"

namespace mtrun::datasets {

struct FetcherOptions {
  std::string cache;                          // folder
  size_t connections = 4;                     // at a time, over all sets
  Duration linger = std::chrono::seconds(5);  // without a client; then it ends
};

/// Serves until nobody has needed it for a while. `ready` is called once clients find it. OK too where
/// another process is the fetcher of this cache.
absl::Status RunFetcher(const FetcherOptions& options, const std::function<void()>& ready);

}  // namespace mtrun::datasets
