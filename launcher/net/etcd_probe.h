// Tells an etcd server at the endpoint from an mtrun that is still to come.
#pragma once

#include "base/clock.h"
#include "base/endpoint.h"

namespace mtrun::launcher {

/// True when an etcd server answers at the endpoint within `patience`; blocks at most twice that long.
bool EtcdAnswers(const Endpoint& endpoint, Duration patience);

}  // namespace mtrun::launcher
