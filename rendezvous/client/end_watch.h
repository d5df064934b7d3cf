// Waits at a service for the end of its jobs while the caller polls now and then, because the service may end
// with its job. One thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "rendezvous/client/status_client.h"

namespace mtrun::rendezvous {

class EndWatch {
 public:
  /// `token`: "" with `insecure`.
  EndWatch(bool insecure, std::string token);
  ~EndWatch();

  /// Waits for the end at `endpoint`, whose service has a job that has not ended, unless it already does.
  void Follow(const std::string& endpoint);
  /// True until the answer comes.
  bool waits() const;
  /// Returns the status at the end, if the service has reported it.
  std::optional<ServiceStatus> Ended() const;

 private:
  struct Call;

  const bool insecure_;
  const std::string token_;
  std::unique_ptr<Call> call_;
};

}  // namespace mtrun::rendezvous
