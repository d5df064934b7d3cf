// An operator's word that the node which hosts a job's one endpoint never comes back, said to another node of
// it: whom it means, why it does not count, and what to say and where. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/events.h"
#include "rendezvous/eviction.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

/// The member of the `last` generation that lives where the service of the job did; null for none.
const rendezvous::Member* FindHost(const rendezvous::Assignment& last, const rendezvous::ServiceHost& host);

/// `name`: its host name or node id. kFailedPrecondition: it is another node, or none.
absl::StatusOr<rendezvous::Eviction> ChooseHost(const rendezvous::Assignment& last,
                                                const rendezvous::ServiceHost& host,
                                                const std::string& job_id, const std::string& name);

/// Services of the other members.
std::vector<std::string> ServicesWithout(const rendezvous::Assignment& last,
                                         const rendezvous::ServiceHost& host);

/// For a host that has been silent for a while: what this means, and what a person can do.
std::string DescribeSilentHost(const rendezvous::Assignment& last, const rendezvous::ServiceHost& host);

}  // namespace mtrun::launcher
