// Asks a rendezvous service who it is and what it serves. Blocking calls with a deadline; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rendezvous/credentials.h"
#include "rendezvous/state_machine.h"

namespace mtrun::rendezvous {

namespace wire {
class StatusReply;
}

/// The id of the service behind the endpoint. kUnauthenticated for another token, kUnavailable when nobody
/// answers in time.
absl::StatusOr<uint64_t> ReadServiceId(const std::string& endpoint, bool insecure, const std::string& token,
                                       Duration patience);

/// kUnauthenticated with one sentence when the service behind the endpoint expects TLS; OK otherwise (also
/// when nobody answers).
absl::Status CheckPlainText(const std::string& endpoint, Duration patience);

struct ServiceStatus {
  Duration uptime = Duration::zero();
  int64_t wall_clock_ns = 0;  // the service's, when it answered; 0: one of an older mtrun
  std::vector<JobView> jobs;
  std::map<std::string, uint64_t> forgotten;  // jobs whose nodes are all gone: the last generation's number
  std::map<std::string, std::vector<EndedRun>> ended;  // by job
};
ServiceStatus DecodeStatus(const wire::StatusReply& reply);
/// No job that the service has goes on; true where it has none.
bool AllEnded(const ServiceStatus& status);
/// `asks`: the service that asks, which has the job `job_id`; without an endpoint where somebody only looks.
absl::StatusOr<ServiceStatus> ReadStatus(const std::string& endpoint, bool insecure, const std::string& token,
                                         Duration patience, const std::string& job_id = "",
                                         const PeerService& asks = {});

/// The status of the service at `where` (host:port), for a person. kUnavailable: nobody answers within 5 s;
/// as LoadToken, which makes none here.
absl::StatusOr<ServiceStatus> AskForStatus(const std::string& where, const Credentials& credentials);

/// For people: one sentence without a job, else a heading for each job and its nodes in aligned columns.
std::string StatusTable(const ServiceStatus& status);
/// For programs: one JSON object; seconds end in _s, what a node does not have is null.
std::string StatusJson(const ServiceStatus& status);
/// The same on one line.
std::string StatusLine(const ServiceStatus& status);

}  // namespace mtrun::rendezvous
