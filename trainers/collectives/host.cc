#include "trainers/collectives/host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"

namespace mtrun::collectives {
namespace {

// Returns "" for link-local IPv6 addresses: their interface number has no meaning on other machines.
std::string NumericAddress(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&six)) inet_ntop(AF_INET6, &six, text, sizeof(text));
  }
  return text;
}

}  // namespace

std::string LocalHostId() {
  if (const char* given = std::getenv("MTRUN_HOST_ID"); given != nullptr && *given != '\0') return given;
  std::string boot_id = "unknown";
  if (auto text = ReadFile("/proc/sys/kernel/random/boot_id"); text.ok()) {
    boot_id = std::string(absl::StripAsciiWhitespace(*text));
  }
  struct stat network = {};
  stat("/proc/self/ns/net", &network);
  return absl::StrCat(boot_id, "/", network.st_ino, "/", HostName());
}

std::vector<std::string> LocalAddresses() {
  ifaddrs* list = nullptr;
  std::vector<std::string> addresses, loopback;
  if (getifaddrs(&list) != 0) return {"127.0.0.1"};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const std::string text = NumericAddress(entry->ifa_addr);
    if (!text.empty()) ((entry->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : addresses).push_back(text);
  }
  addresses.insert(addresses.end(), loopback.begin(), loopback.end());
  return addresses;
}

std::string Encode(const PeerInfo& info) {
  return absl::StrCat(info.pid, "\n", info.host, "\n", info.host_id, "\n", info.unix_name, "\n", info.port,
                      "\n", absl::StrJoin(info.addresses, " "), "\n", info.encrypts ? "encrypts" : "");
}

absl::StatusOr<PeerInfo> DecodePeerInfo(const std::string& text) {
  const std::vector<std::string> fields = absl::StrSplit(text, '\n');
  PeerInfo info;
  if (fields.size() != 7 || !absl::SimpleAtoi(fields[0], &info.pid) ||
      !absl::SimpleAtoi(fields[4], &info.port)) {
    return absl::InvalidArgumentError(absl::StrCat("a peer's address in the key-value store is malformed: \"",
                                                   absl::string_view(text), "\""));
  }
  info.host = fields[1];
  info.host_id = fields[2];
  info.unix_name = fields[3];
  info.addresses = absl::StrSplit(fields[5], ' ', absl::SkipEmpty());
  info.encrypts = fields[6] == "encrypts";
  return info;
}

std::string Describe(int rank, const PeerInfo& info) {
  return absl::StrCat("rank ", rank, " (pid ", info.pid, " on ", info.host, ")");
}

}  // namespace mtrun::collectives
