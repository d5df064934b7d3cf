// Where a service is, as people write it ("host", "host:port", "[v6 address]:port"), and whether other
// machines can be there. Parsing is pure; only ResolveHost asks the system.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun {

inline constexpr int kDefaultEndpointPort = 29400;

struct Endpoint {
  std::string host;  // without brackets
  int port = kDefaultEndpointPort;
  bool operator==(const Endpoint&) const = default;
};

/// kInvalidArgument says what is wrong with `text`. Port 0 is allowed (any free port; only a loopback host
/// can mean it).
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text);
/// "host:port"; an IPv6 address gets brackets.
std::string ToText(const Endpoint& endpoint);
bool IsIpAddress(std::string_view host);

/// The addresses that a host's name leads to, as numbers; none when it does not resolve.
using Resolver = std::function<std::vector<std::string>(const std::string& host)>;
/// The system's resolver, each address once. Blocks as long as the system's resolver does.
std::vector<std::string> ResolveHost(const std::string& host);

/// Whether `host` never leaves this machine. Of addresses 127.0.0.0/8, also mapped into IPv6, and ::1. Of
/// names only localhost and those below it (RFC 6761), in any case, when every address that they resolve to
/// is such a one. No other name is, whatever it resolves to here: hosts files often give a node's own name
/// 127.0.1.1 on that node alone, and the ends of a job must judge alike.
bool IsLoopback(std::string_view host, const Resolver& resolve = ResolveHost);
/// A resolver for who cannot wait, or must judge today as tomorrow: asks nobody, and takes names of loopback
/// for what they say.
std::vector<std::string> NamesAsTheySay(const std::string& host);
/// Whether every one of them is; an empty list is not.
bool AreLoopback(const std::vector<Endpoint>& endpoints, const Resolver& resolve = ResolveHost);

}  // namespace mtrun
