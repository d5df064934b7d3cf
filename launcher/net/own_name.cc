#include "launcher/net/own_name.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace mtrun::launcher {

std::string EndpointFromHere(const std::string& text, const std::string& own, const Resolver& resolve) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
  if (!endpoint.ok() || IsIpAddress(endpoint->host) || endpoint->host == "localhost") return text;
  const bool is_own = absl::EqualsIgnoreCase(absl::StripSuffix(endpoint->host, "."), own);
  if (!is_own || !resolve(endpoint->host).empty()) return text;
  return ToText({"localhost", endpoint->port});
}

bool HidesBehindName(const std::vector<std::string>& addresses,
                     const std::vector<InterfaceAddress>& interfaces) {
  for (const std::string& address : addresses) {
    if (!InterfaceOf(address, interfaces).empty()) return false;
    const bool on_loopback = std::any_of(interfaces.begin(), interfaces.end(), [&](const auto& each) {
      return each.loopback && absl::StrContains(each.address, ':') == absl::StrContains(address, ':');
    });
    if (on_loopback && IsLoopback(address)) return true;
  }
  return true;
}

}  // namespace mtrun::launcher
