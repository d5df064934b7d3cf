// Texts and reports of the agent. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "launcher/core/agent_events.h"
#include "launcher/core/worker_slots.h"
#include "rendezvous/wire/events.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

/// "generation 2 formed: 2 nodes, world size 4; this is node 0 with ranks 0-1; master 10.0.0.1:4002".
std::string FormationMessage(const rendezvous::Assignment& assignment, const rendezvous::Member& self,
                             int max_restarts);

/// Returns the report of a worker's exit. `stalled`: mtrun killed it after no progress for this long.
rendezvous::WorkerFailure MakeFailure(const WorkerExited& exited, const WorkerSlots& slots,
                                      std::optional<Duration> stalled);

/// Says that no service has answered for `lease`: trainers hold, other programs are killed.
std::string LeaseEnded(Duration lease, bool hold);
/// Says that the workers are done and no service has answered for `away`.
std::string EndsAlone(Duration away);
/// Returns the line of the node that serves the job since it has connected to the service of `now` instead of
/// `before`; "" on other nodes, at the endpoint, and if nothing has changed. `own`: its presence id.
std::string DescribeTakeover(const rendezvous::ServiceHost& before, const rendezvous::ServiceHost& now,
                             uint64_t own, bool insecure);

}  // namespace mtrun::launcher
