// Tries an endpoint for mtrun --doctor: its name, a connection, the service, the size of packets. Asks nobody
// else.
#pragma once

#include <string>

#include "launcher/doctor/endpoint_findings.h"
#include "rendezvous/credentials.h"

namespace mtrun::launcher {

/// Name and connection: fills in all up to the service. Blocks for at most 3 s an address, and as long as the
/// system's resolver does.
EndpointFacts Reach(const Endpoint& endpoint);

/// Asks the service that answers there; REQUIRES facts->answering.
void AskService(const rendezvous::Credentials& credentials, EndpointFacts* facts);

}  // namespace mtrun::launcher
