// Chooses the connections that a listener drops if too many are unauthenticated. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mtrun::collectives {

/// Returns the indices of `count` connections to drop, in the order of base/unauthenticated_connections.h.
/// `places[i]` is the origin of connection i, the oldest first. If a client opens very many, it loses its
/// own, not those of a peer that is slow to send a Hello.
std::vector<size_t> ChooseDropped(const std::vector<std::string>& places, size_t count);

}  // namespace mtrun::collectives
