// Service endpoints as people write them ("host", "host:port", "[v6 address]:port"), and whether other
// machines can reach them. Parsing is pure; only ResolveHost asks the system.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun {

inline constexpr int kDefaultEndpointPort = 29400;
inline constexpr int kDefaultPagePort = 8080;

struct Endpoint {
  std::string host;  // without brackets
  int port = kDefaultEndpointPort;
  bool operator==(const Endpoint&) const = default;
};

/// Parses `text`; kInvalidArgument says what is wrong with it. Port 0 means any free port and is only useful
/// with a loopback host. `port`: if `text` has none.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text, int port = kDefaultEndpointPort);
/// Likewise; "8080" and ":8080" are a port of 127.0.0.1.
absl::StatusOr<Endpoint> ParseLocalEndpoint(std::string_view text, int port = kDefaultEndpointPort);
/// Returns "host:port", with brackets around an IPv6 address.
std::string ToText(const Endpoint& endpoint);
bool IsIpAddress(std::string_view host);
/// Returns whether `host` is 0.0.0.0 or ::, every address of a machine.
bool IsEveryAddress(std::string_view host);

/// Returns the numeric addresses of a host name; none if it does not resolve.
using Resolver = std::function<std::vector<std::string>(const std::string& host)>;
/// Asks the system's resolver and returns each address once. Blocks as long as that resolver does.
std::vector<std::string> ResolveHost(const std::string& host);

/// Returns whether `host` always stays on this machine. Addresses: 127.0.0.0/8 (also mapped into IPv6) and
/// ::1. Names: only localhost and names below it (RFC 6761), in any case, and only if all their addresses are
/// loopback. Other names never count, whatever they resolve to here: a hosts file often maps a node's own
/// name to 127.0.1.1 on that node alone, and both ends of a job must agree.
bool IsLoopback(std::string_view host, const Resolver& resolve = ResolveHost);
/// A resolver that makes no queries, for callers that cannot block or need repeatable answers. It takes
/// localhost names at face value and resolves no others.
std::vector<std::string> NamesAsTheySay(const std::string& host);
/// Returns whether all endpoints are loopback; false for an empty list.
bool AreLoopback(const std::vector<Endpoint>& endpoints, const Resolver& resolve = ResolveHost);

}  // namespace mtrun
