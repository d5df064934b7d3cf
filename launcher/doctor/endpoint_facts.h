// Probes an endpoint for mtrun --doctor: name, connection, service, packet size. Contacts no other machine.
#pragma once

#include "launcher/doctor/endpoint_findings.h"
#include "rendezvous/client/credentials.h"

namespace mtrun::launcher {

/// Resolves the name and connects: fills in everything before the service. Blocks for at most 3 s per
/// address, plus the time of the system's resolver.
EndpointFacts Reach(const Endpoint& endpoint);

/// Queries the service there; REQUIRES facts->answering.
void AskService(const rendezvous::Credentials& credentials, EndpointFacts* facts);

}  // namespace mtrun::launcher
