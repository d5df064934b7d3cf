// The rendezvous endpoint as people write it: "host", "host:port", "[v6 address]:port". Pure text.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

inline constexpr int kDefaultEndpointPort = 29400;

struct Endpoint {
  std::string host;
  int port = kDefaultEndpointPort;
  bool operator==(const Endpoint&) const = default;
};

/// kInvalidArgument says what is wrong with `text`. Port 0 is allowed (any free port; only a loopback host
/// can mean it).
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text);
/// "host:port"; an IPv6 address gets brackets.
std::string ToText(const Endpoint& endpoint);
/// "localhost", 127.0.0.0/8, ::1.
bool IsLoopback(std::string_view host);
bool IsIpAddress(std::string_view host);

}  // namespace mtrun::launcher
