// Concurrent HTTP transfers by curl, on one thread. Follows no redirects and decides nothing: see
// fetch_rules.h. Uses the proxies of the usual variables (https_proxy, no_proxy, ...). Not thread-safe.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "datasets/remote/fetch_rules.h"
#include "datasets/remote/origin.h"

namespace mtrun::datasets {

/// A transfer ends as broken if it is slower than this for so long.
struct TransferLimits {
  long least_bytes_a_second = kLeastBytesASecond;
  long slow_seconds = kSlowSeconds;
};

struct Transfer;

class Transfers {
 public:
  /// Receives pieces of a file. `offset`: the piece's position in the file. An error ends the transfer.
  using Sink = std::function<absl::Status(int64_t offset, std::string_view bytes)>;
  struct Ended {
    int64_t id = 0;
    TransferEnd end;
  };

  /// kFailedPrecondition if this machine's libcurl cannot sign requests for s3.
  static absl::Status CheckSigning();

  explicit Transfers(const TransferLimits& limits = {});
  ~Transfers();

  /// Ends by itself after 4 KiB of the body of an error. REQUIRES: `id` is unused.
  void Start(int64_t id, const FetchRequest& request, Sink sink);
  void Cancel(int64_t id);
  /// Returns the bytes of the body that have been received; 0 if there is no such transfer.
  int64_t Received(int64_t id) const;

  /// Transfers bytes, waiting for more or for `others` for up to `timeout`. Returns the ended transfers.
  std::vector<Ended> Wait(std::vector<pollfd>& others, Duration timeout);

 private:
  std::vector<Ended> Collect();

  const TransferLimits limits_;
  void* multi_ = nullptr;  // CURLM
  std::map<int64_t, std::unique_ptr<Transfer>> transfers_;
};

}  // namespace mtrun::datasets
