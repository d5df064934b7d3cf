// The addresses of an endpoint as connect(2) takes them. Any thread.
#pragma once

#include <netdb.h>

#include <memory>

#include "base/endpoint.h"

namespace mtrun::rendezvous {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Null when there is none. A name blocks for as long as the system's resolver does, unless `flags` has
/// AI_NUMERICHOST.
AddressList Resolve(const Endpoint& endpoint, int flags = 0);

}  // namespace mtrun::rendezvous
