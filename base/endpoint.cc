#include "base/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/string_view.h"

namespace mtrun {
namespace {

absl::Status Wrong(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not HOST or HOST:PORT: ", why));
}

bool IsInterfaceCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::string_view("-_.~:").find(c) != absl::string_view::npos;
}

/// Accepts a zone too: "fe80::1%eth0".
bool IsV6Address(absl::string_view host) {
  in6_addr address;
  const std::string text(host.substr(0, host.find('%')));
  const absl::string_view interface = host.substr(std::min(text.size() + 1, host.size()));
  return inet_pton(AF_INET6, text.c_str(), &address) == 1 &&
         std::all_of(interface.begin(), interface.end(), IsInterfaceCharacter);
}

bool IsLoopbackAddress(const std::string& host) {
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

bool IsNameOfLoopback(std::string_view host) {
  const std::string lower = absl::AsciiStrToLower(View(host));
  const absl::string_view name = absl::StripSuffix(lower, ".");
  return name == "localhost" || absl::EndsWith(name, ".localhost");
}

struct Parts {
  absl::string_view host, port;
  bool has_port = false;
};

absl::StatusOr<Parts> Split(absl::string_view text) {
  if (absl::StartsWith(text, "[")) {
    const size_t close = text.find(']');
    if (close == absl::string_view::npos) return Wrong(text, "the '[' is never closed");
    const absl::string_view rest = text.substr(close + 1), host = text.substr(1, close - 1);
    if (!rest.empty() && rest[0] != ':') return Wrong(text, "only :PORT may follow the ']'");
    if (!IsV6Address(host)) return Wrong(text, "only an IPv6 address may be in brackets");
    return Parts{host, rest.empty() ? rest : rest.substr(1), !rest.empty()};
  }
  const size_t colon = text.find(':');
  if (colon == absl::string_view::npos) return Parts{text, "", false};
  if (text.find(':', colon + 1) == absl::string_view::npos)
    return Parts{text.substr(0, colon), text.substr(colon + 1), true};
  // Two colons without brackets can only be a bare IPv6 address.
  if (!IsV6Address(text)) return Wrong(text, "an IPv6 address with a port needs brackets");
  return Parts{text, "", false};
}

}  // namespace

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view std_text, int port) {
  const absl::string_view text = View(std_text);
  const absl::StatusOr<Parts> parts = Split(text);
  if (!parts.ok()) return parts.status();
  if (parts->host.empty()) return Wrong(text, "the host is missing");
  for (const char c : parts->host) {
    if (absl::ascii_isspace(static_cast<unsigned char>(c)) || c == '/' || c == '@' || c == ',')
      return Wrong(text, "a host cannot contain spaces, slashes, commas or @");
  }
  Endpoint endpoint{.host = std::string(parts->host), .port = port};
  if (parts->has_port &&
      (!absl::SimpleAtoi(parts->port, &endpoint.port) || endpoint.port < 0 || endpoint.port > 65535)) {
    return Wrong(text, "the port must be a number from 0 to 65535");
  }
  return endpoint;
}

absl::StatusOr<Endpoint> ParseLocalEndpoint(std::string_view text, int port) {
  const absl::string_view number = absl::StripPrefix(View(text), ":");
  const bool port_alone = !number.empty() && std::all_of(number.begin(), number.end(), absl::ascii_isdigit);
  return ParseEndpoint(port_alone ? absl::StrCat("127.0.0.1:", number) : std::string(text), port);
}

std::string ToText(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return v6 ? absl::StrCat("[", endpoint.host, "]:", endpoint.port)
            : absl::StrCat(endpoint.host, ":", endpoint.port);
}

bool IsIpAddress(std::string_view host) {
  if (host.find('\0') != std::string_view::npos) return false;  // inet_pton would stop there
  in_addr v4;
  return inet_pton(AF_INET, std::string(host).c_str(), &v4) == 1 || IsV6Address(View(host));
}

bool IsEveryAddress(std::string_view host) {
  const std::string text(host);
  in_addr v4;
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return v4.s_addr == INADDR_ANY;
  in6_addr v6;
  if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_UNSPECIFIED(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr32[3] == INADDR_ANY);
}

std::vector<std::string> ResolveHost(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    if (std::find(addresses.begin(), addresses.end(), text) == addresses.end()) addresses.emplace_back(text);
  }
  return addresses;
}

bool IsLoopback(std::string_view host, const Resolver& resolve) {
  const std::string text(host);
  if (IsIpAddress(host)) return IsLoopbackAddress(text);
  if (!IsNameOfLoopback(host)) return false;
  const std::vector<std::string> addresses = resolve(text);
  return !addresses.empty() && std::all_of(addresses.begin(), addresses.end(), IsLoopbackAddress);
}

std::vector<std::string> NamesAsTheySay(const std::string& host) {
  return IsNameOfLoopback(host) ? std::vector<std::string>{"127.0.0.1"} : std::vector<std::string>();
}

bool AreLoopback(const std::vector<Endpoint>& endpoints, const Resolver& resolve) {
  const auto is_loopback = [&](const Endpoint& endpoint) { return IsLoopback(endpoint.host, resolve); };
  return !endpoints.empty() && std::all_of(endpoints.begin(), endpoints.end(), is_loopback);
}

}  // namespace mtrun
