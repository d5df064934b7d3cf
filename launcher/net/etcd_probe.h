// Distinguishes an etcd server at the endpoint from an mtrun that has not started yet.
#pragma once

#include "base/clock.h"
#include "base/endpoint.h"

namespace mtrun::launcher {

/// Asks all addresses of the endpoint's host at once. Returns true if an etcd server answers within
/// `timeout`; blocks at most that long, and as long as `resolve` does.
bool EtcdAnswers(const Endpoint& endpoint, Duration timeout, const Resolver& resolve = ResolveHost);

}  // namespace mtrun::launcher
