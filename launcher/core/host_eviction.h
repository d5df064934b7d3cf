// An operator's statement, made to another node of the job, that the node which hosts its only endpoint never
// comes back. These functions find that node, reject wrong requests and word the messages. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/job/eviction.h"
#include "rendezvous/wire/events.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

/// Returns the member of the `last` generation whose mtrun hosted the job's service; null if there is none.
const rendezvous::Member* FindHost(const rendezvous::Assignment& last, const rendezvous::ServiceHost& host);

/// Returns the eviction of the node `name` (host name or node id). kFailedPrecondition: it is not the host.
absl::StatusOr<rendezvous::Eviction> ChooseHost(const rendezvous::Assignment& last,
                                                const rendezvous::ServiceHost& host,
                                                const std::string& job_id, const std::string& name);

/// Returns the services of the other members.
std::vector<std::string> ServicesWithout(const rendezvous::Assignment& last,
                                         const rendezvous::ServiceHost& host);

/// Describes a host that has been silent for a while, and how an operator can resolve it.
std::string DescribeSilentHost(const rendezvous::Assignment& last, const rendezvous::ServiceHost& host);

}  // namespace mtrun::launcher
