// Waits at a service for the end of its jobs, beside questions that are asked now and then: the service may
// end with its job. One thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "rendezvous/status_client.h"

namespace mtrun::rendezvous {

class EndWatch {
 public:
  /// `token` "" with `insecure`.
  EndWatch(bool insecure, std::string token);
  ~EndWatch();

  /// The service at `endpoint` has a job that has not ended. Where it is waited for already nothing changes.
  void Follow(const std::string& endpoint);
  /// It has not been told anything yet.
  bool waits() const;
  /// The status at the end, once the service has told it.
  std::optional<ServiceStatus> Ended() const;

 private:
  struct Call;

  const bool insecure_;
  const std::string token_;
  std::unique_ptr<Call> call_;
};

}  // namespace mtrun::rendezvous
