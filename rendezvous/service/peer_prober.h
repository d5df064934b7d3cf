// Probes for one of several services: the status of the job's other services, and which members are alive or
// gone for certain (presence_prober.h). Blocking, so the caller provides a thread. Any thread.
#pragma once

#include <netdb.h>

#include <cstdint>
#include <string>

#include "rendezvous/wire/events.h"

namespace mtrun::rendezvous {

struct ProbeOptions {
  uint64_t service_id = 0;  // id of the asking service
  bool insecure = false;
  std::string token = {};
  std::string asks = {};  // the asking service's endpoint, for services that do not have it in their list
  Duration timeout = std::chrono::milliseconds(700);  // for each answer
};

/// The state of host:port: kOpen if a process listens there, kRefused if the host answers that none does,
/// kSilent if no answer comes in time.
enum class Presence { kOpen, kRefused, kSilent };
Presence TryConnect(const std::string& endpoint, Duration timeout);
/// The same for a list of addresses. Those that cannot be asked (address_list.h) do not count.
Presence TryConnect(const addrinfo* addresses, Duration timeout);

ProbeResult ProbePeers(const ProbeRequest& wanted, const ProbeOptions& options);

}  // namespace mtrun::rendezvous
