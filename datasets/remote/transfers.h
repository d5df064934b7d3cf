// Several HTTP transfers at a time, by curl, on one thread. Follows nothing and decides nothing: see
// fetch_rules.h. Proxies are those of the usual variables (https_proxy, no_proxy, ...). Not thread-safe.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "datasets/remote/fetch_rules.h"
#include "datasets/remote/origin.h"

namespace mtrun::datasets {

class Transfers {
 public:
  /// Takes what comes of a file. `offset`: where in the file the piece belongs. An error ends the transfer.
  using Sink = std::function<absl::Status(int64_t offset, std::string_view bytes)>;
  struct Ended {
    int64_t id = 0;
    TransferEnd end;
  };

  /// `data_key_authority`: the certificate that mtrun's own servers are trusted by (PEM), "" for none.
  Transfers();
  ~Transfers();

  /// REQUIRES: no transfer of this id is under way.
  void Start(int64_t id, const FetchRequest& request, const std::string& data_key_authority, Sink sink);
  void Cancel(int64_t id);

  /// Moves bytes, and waits for more and for `others` for up to `patience`. What has ended meanwhile.
  std::vector<Ended> Wait(std::vector<pollfd>& others, Duration patience);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mtrun::datasets
