#include "rendezvous/client/service_trail.h"

#include <algorithm>

#include "base/endpoint.h"

namespace mtrun::rendezvous {
namespace {

/// Returns `place`, as the service at `asked` has named it, for a client that may be on another machine; ""
/// if it is not an endpoint.
std::string FromHere(const std::string& asked, const std::string& place) {
  const absl::StatusOr<Endpoint> from = ParseEndpoint(asked), to = ParseEndpoint(place);
  if (!from.ok() || !to.ok()) return "";
  const bool of_that_machine =
      IsLoopback(to->host, NamesAsTheySay) && !IsLoopback(from->host, NamesAsTheySay);
  return ToText({of_that_machine ? from->host : to->host, to->port});
}

}  // namespace

std::string ServiceTrail::Next() { return next_ < endpoints_.size() ? endpoints_[next_++] : ""; }

std::vector<std::string> ServiceTrail::Rest() {
  std::vector<std::string> rest;
  for (std::string each = Next(); !each.empty(); each = Next()) rest.push_back(std::move(each));
  return rest;
}

void ServiceTrail::Follow(const std::string& asked, const std::string& place) {
  const std::string endpoint = FromHere(asked, place);
  const auto next = endpoints_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto known = std::find(endpoints_.begin(), endpoints_.end(), endpoint);
  if (endpoint.empty() || known < next) return;
  if (known != endpoints_.end()) return void(std::rotate(next, known, known + 1));
  if (hops_ == kMaxHops) return;
  ++hops_;
  endpoints_.insert(next, endpoint);
}

}  // namespace mtrun::rendezvous
