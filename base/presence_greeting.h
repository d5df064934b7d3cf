// The greeting that a node's presence port sends to every client: see docs/protocol.md. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mtrun {

inline constexpr size_t kPresenceGreetingSize = 16;

/// Returns 8 bytes that name the protocol, then the id of the node, big endian.
std::string PresenceGreeting(uint64_t id);

}  // namespace mtrun
