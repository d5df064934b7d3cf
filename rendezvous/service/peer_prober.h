// Probes for a service that is one of several: what the job's other services say, and which members live or
// are gone for certain (presence_prober.h). Blocking; the caller gives it a thread. Any thread.
#pragma once

#include <netdb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/events.h"

namespace mtrun::rendezvous {

struct ProbeOptions {
  uint64_t service_id = 0;  // of the service that asks
  bool insecure = false;
  std::string token = {};
  std::string asks = {};  // endpoint of the service that asks, for those to hear that are not of its list
  Duration patience = std::chrono::milliseconds(700);  // for each answer
};

/// What is at host:port: kOpen when somebody listens, kRefused when the host answers that nobody does,
/// kSilent when no answer comes in time.
enum class Presence { kOpen, kRefused, kSilent };
Presence TryConnect(const std::string& endpoint, Duration patience);
/// The same of a list of addresses. Those that cannot be asked (address_list.h) do not count.
Presence TryConnect(const addrinfo* addresses, Duration patience);

ProbeResult ProbePeers(const ProbeRequest& wanted, const ProbeOptions& options);

}  // namespace mtrun::rendezvous
