// Asks a rendezvous service who it is and what it serves. Blocking calls with a deadline; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rendezvous/state_machine.h"

namespace mtrun::rendezvous {

/// The id of the service behind the endpoint. kUnauthenticated for another token, kUnavailable when nobody
/// answers in time.
absl::StatusOr<uint64_t> ReadServiceId(const std::string& endpoint, bool insecure, const std::string& token,
                                       Duration patience);

/// kUnauthenticated with one sentence when the service behind the endpoint expects TLS; OK otherwise (also
/// when nobody answers).
absl::Status CheckPlainText(const std::string& endpoint, Duration patience);

struct ServiceStatus {
  Duration uptime = Duration::zero();
  std::vector<JobView> jobs;
};
absl::StatusOr<ServiceStatus> ReadStatus(const std::string& endpoint, bool insecure, const std::string& token,
                                         Duration patience);

/// A heading for each job and its nodes in aligned columns.
std::string StatusTable(const ServiceStatus& status);

}  // namespace mtrun::rendezvous
