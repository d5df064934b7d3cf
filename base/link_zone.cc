#include "base/link_zone.h"

#include <arpa/inet.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/string_view.h"

namespace mtrun {
namespace {

std::string& ZoneHere() {
  static auto* const zone = new std::string();
  return *zone;
}

std::string_view BeforeZone(std::string_view host) { return host.substr(0, host.find('%')); }

}  // namespace

bool IsLinkLocalSix(std::string_view host) {
  in6_addr six;
  return inet_pton(AF_INET6, std::string(BeforeZone(host)).c_str(), &six) == 1 && IN6_IS_ADDR_LINKLOCAL(&six);
}

std::string ZoneOf(std::string_view host) {
  const size_t percent = host.find('%');
  return IsLinkLocalSix(host) && percent != std::string_view::npos ? std::string(host.substr(percent + 1))
                                                                   : "";
}

std::string WithoutZone(std::string_view host) {
  return std::string(IsLinkLocalSix(host) ? BeforeZone(host) : host);
}

std::string WithZone(std::string_view host, std::string_view zone) {
  const bool lacks = !zone.empty() && IsLinkLocalSix(host) && ZoneOf(host).empty();
  return lacks ? absl::StrCat(View(host), "%", View(zone)) : std::string(host);
}

absl::Status CheckZone(const Endpoint& endpoint) {
  if (!IsLinkLocalSix(endpoint.host) || !ZoneOf(endpoint.host).empty()) return absl::OkStatus();
  const std::string named = ToText({endpoint.host + "%eth0", endpoint.port});
  return absl::InvalidArgumentError(absl::StrCat(
      endpoint.host,
      " is a link-local address, which needs the interface of this machine that leads to it, as in ", named));
}

const std::string& LinkZone() { return ZoneHere(); }
void SetLinkZone(std::string zone) { ZoneHere() = std::move(zone); }

}  // namespace mtrun
