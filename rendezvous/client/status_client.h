// Asks a rendezvous service for its id and its status. Blocking calls with a deadline; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "rendezvous/client/credentials.h"
#include "rendezvous/wire/events.h"
#include "rendezvous/wire/job_run.h"
#include "rendezvous/wire/job_view.h"

namespace mtrun::rendezvous {

namespace wire {
class StatusReply;
}

/// Returns the id of the service at the endpoint. kUnauthenticated for another token, kUnavailable if no
/// answer comes in time.
absl::StatusOr<uint64_t> ReadServiceId(const std::string& endpoint, bool insecure, const std::string& token,
                                       Duration timeout);

/// Returns kUnauthenticated with one sentence if the service at the endpoint expects TLS, otherwise OK, also
/// if there is no answer.
absl::Status CheckPlainText(const std::string& endpoint, Duration timeout);

struct ServiceStatus {
  Duration uptime = Duration::zero();
  int64_t wall_clock_ns = 0;  // the service's clock when it answered; 0: an older mtrun
  std::vector<JobView> jobs;
  std::map<std::string, uint64_t> forgotten;  // last generation numbers of jobs whose nodes are all gone
  std::map<std::string, std::vector<EndedRun>> ended;  // by job
  std::map<std::string, std::string> elsewhere;        // endpoints of other services by their job
};
ServiceStatus DecodeStatus(const wire::StatusReply& reply);
/// True if all jobs of the service have ended, or it has none.
bool AllEnded(const ServiceStatus& status);
/// `asks`: the asking service, which has the job `job_id`; its endpoint is empty if the client only asks.
absl::StatusOr<ServiceStatus> ReadStatus(const std::string& endpoint, bool insecure, const std::string& token,
                                         Duration timeout, const std::string& job_id = "",
                                         const PeerService& asks = {});

/// Returns the status of the service at `where` (host:port), for a person. kUnavailable if no answer comes
/// within 5 s; other errors as LoadToken, which makes no token here.
absl::StatusOr<ServiceStatus> AskForStatus(const std::string& where, const Credentials& credentials);

/// For people: one sentence if it has no job, else for each job a heading and its nodes in aligned columns,
/// and a line for each job elsewhere.
std::string StatusTable(const ServiceStatus& status);
/// For programs: one JSON object. Keys of seconds end in _s; missing values are null.
std::string StatusJson(const ServiceStatus& status);
/// The same on one line.
std::string StatusLine(const ServiceStatus& status);

}  // namespace mtrun::rendezvous
