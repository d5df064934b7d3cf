#include "rendezvous/service/host.h"

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "rendezvous/client/status_client.h"

namespace mtrun::rendezvous {
namespace {

constexpr Duration kProbePatience = std::chrono::seconds(3);

}  // namespace

absl::StatusOr<std::unique_ptr<Host>> StartStandby(const HostOptions& options, const std::string& address) {
  ServiceOptions service_options = options;
  service_options.embedded = true;
  service_options.standby_address = address;
  // These are for the service at the endpoint alone.
  service_options.state_folder.clear();
  service_options.state_host.clear();
  service_options.job_id.clear();
  service_options.foreign_connections = nullptr;
  const bool here_alone = IsLoopback(address) && !options.all_addresses;
  const auto start = [&](int port) {
    service_options.listen = ToText({here_alone ? address : "::", port});
    return Service::Start(service_options);
  };
  MT_ASSIGN_OR_RETURN(std::unique_ptr<Service> service, OpenWithin(options.ports, RandomBits(), start));
  const std::string text = ToText({address, service->port()});
  return std::make_unique<Host>(std::move(service), text, "this node is a standby");
}

absl::StatusOr<std::unique_ptr<Host>> StartIfHost(const HostOptions& options) {
  MT_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(options.endpoint));
  if (options.is_host == false) return nullptr;
  const bool local = IsLoopback(endpoint.host);
  if (endpoint.port == 0 && !local && options.is_host != true) {
    return absl::InvalidArgumentError(absl::StrCat("endpoint \"", options.endpoint,
                                                   "\": port 0 (any free port) needs a loopback host, "
                                                   "because other nodes could not know the port"));
  }
  ServiceOptions service_options = options;
  service_options.embedded = true;
  service_options.evict_host = nullptr;  // for standbys alone
  service_options.listen = ToText({local && !options.all_addresses ? endpoint.host : "::", endpoint.port});
  // A service on a free port has no successor: the next one at port 0 belongs to another job.
  if (endpoint.port == 0) service_options.state_folder.clear();
  absl::StatusOr<std::unique_ptr<Service>> service = Service::Start(service_options);
  if (absl::IsAlreadyExists(service.status()) && local && options.all_addresses) {
    // Another program may have the port at another address.
    service_options.listen = ToText(endpoint);
    service = Service::Start(service_options);
  }
  if (absl::IsAlreadyExists(service.status())) {
    if (options.is_host != true && endpoint.port != 0)
      return nullptr;  // another agent of this machine serves, or the port is not ours
    return absl::AlreadyExistsError(
        absl::StrCat("cannot host the rendezvous: port ", endpoint.port, " is in use"));
  }
  MT_RETURN_IF_ERROR(service.status());
  endpoint.port = (*service)->port();
  const std::string text = ToText(endpoint);
  if (options.is_host == true) return std::make_unique<Host>(*std::move(service), text, "is_host is set");
  const std::string reason = absl::StrCat(text, " is an address of this node");
  // Loopback leads nowhere else. Any other name is verified by reading our own id back through it.
  if (!local) {
    const absl::StatusOr<uint64_t> answer =
        ReadServiceId(text, options.insecure, options.token, kProbePatience);
    if (!answer.ok() || *answer != (*service)->id()) return nullptr;
  }
  return std::make_unique<Host>(*std::move(service), text, reason);
}

}  // namespace mtrun::rendezvous
