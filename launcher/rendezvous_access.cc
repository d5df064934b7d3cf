#include "launcher/rendezvous_access.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/link_zone.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/token.h"
#include "launcher/net/etcd_probe.h"
#include "launcher/net/held_port.h"
#include "launcher/net/interfaces.h"
#include "launcher/net/name_wait.h"
#include "launcher/net/own_name.h"
#include "launcher/workers/guardian.h"
#include "rendezvous/service/state_folder.h"
#include "rendezvous/session/local_session.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kResolvePause = std::chrono::seconds(1);
constexpr Duration kEtcdPatience = std::chrono::seconds(1);

absl::Status RefuseEtcd(const Options& options, const Endpoint& endpoint) {
  if (!options.may_be_etcd || !EtcdAnswers(endpoint, kEtcdPatience)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("an etcd server answers at ", options.endpoint,
                   "; mtrun needs none and cannot use it: give --rdzv_backend "
                   "c10d --rdzv_endpoint HOST:29400 instead, where HOST is one of the nodes"));
}

absl::Status HostIfMine(const Options& options, const PresencePort& presence, std::shared_ptr<StoreDoor> door,
                        RendezvousAccess* access) {
  rendezvous::HostOptions credentials;
  credentials.insecure = access->insecure;
  credentials.token = access->token;
  credentials.presence_port = presence.port();
  credentials.presence_id = presence.id();
  if (options.meets_at_master_port) {
    credentials.foreign_connections = [door = std::move(door)](UniqueFd connection) {
      door->Enter(std::move(connection));
    };
  }
  credentials.state_folder = rendezvous::StateFolderOf(CurrentEnvironment());
  credentials.state_host = HostName();
  access->hosting = std::make_unique<Hosting>(options, std::move(credentials));
  MT_RETURN_IF_ERROR(access->hosting->Begin());
  const std::string own = access->hosting->endpoint();
  if (own.empty()) {
    log::Info("the rendezvous is at ", access->endpoint, ", hosted elsewhere");
  } else {
    access->endpoint = own;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> OwnAddress(const Options& options, const Endpoint& endpoint, bool hosting) {
  if (options.local_addr == kAutoAddress) return AutoAddress(endpoint);
  absl::StatusOr<std::string> address = AddressTowards(endpoint, hosting);
  // The endpoint's name leads to loopback here: the others know where it leads elsewhere, see Offer.
  const bool by_name = address.ok() && *address == endpoint.host && !IsIpAddress(*address);
  return by_name && options.job.endpoints.empty() ? LoopbackAddress() : address;
}

/// Returns Offer::endpoint_address.
std::string AddressOfEndpoint(const Options& options) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(options.endpoint);
  if (options.standalone || !options.job.endpoints.empty() || !endpoint.ok()) return "";
  const absl::StatusOr<Route> route = RouteTo(*endpoint);
  const std::string address = route.ok() ? route->remote : WithoutZone(endpoint->host);
  return IsLoopback(address) ? "" : address;
}

absl::StatusOr<RendezvousAccess> FindRendezvous(const Options& options, const PresencePort& presence,
                                                std::shared_ptr<StoreDoor> door) {
  RendezvousAccess access;
  access.endpoint = options.endpoint;
  access.address = options.local_addr.empty() ? options.master_addr : options.local_addr;
  if (options.local_addr == kAutoAddress) access.address.clear();
  if (options.standalone) return access;  // no other node will join
  MT_ASSIGN_OR_RETURN(const Endpoint wanted, ParseEndpoint(options.endpoint));
  MT_RETURN_IF_ERROR(RefuseEtcd(options, wanted));
  access.insecure = options.insecure;
  if (options.insecure) {
    const bool here_alone = IsOnLoopback(options) && !options.serves_all;
    log::Warning(
        "--insecure: anyone who can reach ", options.endpoint, " may join this job",
        here_alone ? " (every user of this machine)" : "",
        here_alone && options.job.max_nodes > 1
            ? "; nodes elsewhere cannot without a token: give an address of this machine to let them join"
            : "");
  } else {
    const MissingToken missing = IsOnLoopback(options) ? MissingToken::kMake : MissingToken::kMakeForNodes;
    MT_ASSIGN_OR_RETURN(access.token, LoadToken({options.token_file, options.weak_token}, missing));
  }
  MT_RETURN_IF_ERROR(HostIfMine(options, presence, std::move(door), &access));
  return access;
}

/// Returns the zone that the user gave with an endpoint, else that of the first interface with one.
std::string ZoneOfOptions(const Options& options) {
  std::vector<std::string> endpoints = options.asked;
  endpoints.push_back(options.endpoint);
  endpoints.insert(endpoints.end(), options.job.endpoints.begin(), options.job.endpoints.end());
  for (const std::string& text : endpoints) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
    if (const std::string zone = endpoint.ok() ? ZoneOf(endpoint->host) : ""; !zone.empty()) return zone;
  }
  return FirstZone(ListInterfaces());
}

}  // namespace

void SettleEndpoints(Options* options) {
  const std::string given = options->endpoint;
  if (options->job.endpoints.empty()) options->endpoint = EndpointFromHere(given, HostName());
  if (options->endpoint != given)
    log::Info("the endpoint's host is this node's own name and does not resolve here, so it means this node");
  for (std::string& asked : options->asked) asked = EndpointFromHere(asked, HostName());
  SetLinkZone(ZoneOfOptions(*options));
}

absl::Status SettleLocalAddress(Options* options) {
  if (options->local_addr.empty() && options->job.max_nodes > 1)
    options->hides_behind_name = HidesBehindName(ResolveHost(HostName()), ListInterfaces());
  if (options->local_addr.empty() || options->local_addr == kAutoAddress) return absl::OkStatus();
  MT_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(options->endpoint));
  MT_ASSIGN_OR_RETURN(options->local_addr, ChooseOwnAddress(options->local_addr, endpoint));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RendezvousAccess>> OpenRendezvous(const Options& options,
                                                               const PresencePort& presence, int* signal,
                                                               std::shared_ptr<StoreDoor> door) {
  MT_ASSIGN_OR_RETURN(RendezvousAccess access, FindRendezvous(options, presence, std::move(door)));
  const bool hosting = access.hosting && !access.hosting->endpoint().empty();
  NameWait wait(options.connect_timeout, MonotonicNow());
  while (access.address.empty()) {
    MT_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(access.endpoint));
    absl::StatusOr<std::string> address = OwnAddress(options, endpoint, hosting);
    if (address.ok()) {
      access.address = *std::move(address);
      break;
    }
    MT_ASSIGN_OR_RETURN(const std::string news, wait.OnFailure(address.status(), MonotonicNow()));
    if (!news.empty()) log::Warning(news);
    if ((*signal = StopSignalWithin(kResolvePause)) != 0) return std::nullopt;
  }
  access.endpoint_address = AddressOfEndpoint(options);
  if (options.local_addr == kAutoAddress && !options.standalone)
    log::Info("--local_addr auto: the other nodes reach this one at ", access.address);
  // If there is a list, its services take over.
  if (access.hosting && options.job.endpoints.size() < 2)
    MT_RETURN_IF_ERROR(access.hosting->StandBy(access.address));
  return std::optional<RendezvousAccess>(std::move(access));
}

rendezvous::Offer MakeOffer(const Options& options, const RendezvousAccess& access,
                            const PresencePort& presence) {
  rendezvous::Offer offer;
  offer.host = HostName();
  offer.node_id = absl::StrFormat("%s-%d-%08x", offer.host, getpid(), RandomBits() & 0xFFFFFFFF);
  offer.address = WithoutZone(access.address);
  offer.endpoint_address = access.endpoint_address;
  offer.workers = options.workers;
  offer.presence_port = presence.port();
  offer.presence_id = presence.id();
  if (access.hosting) offer.service_port = access.hosting->service_port();
  offer.node_rank = options.node_rank;
  offer.role = options.role;
  return offer;
}

std::unique_ptr<rendezvous::SessionClient> OpenSession(const Options& options, const RendezvousAccess& access,
                                                       const std::string& node_id,
                                                       rendezvous::SessionClient::Handler handler) {
  rendezvous::SessionOptions session;
  session.endpoint = access.endpoint;
  session.endpoints = options.job.endpoints;
  session.node_id = node_id;
  session.job = options.job;
  session.reconnect_timeout = options.reconnect_timeout;
  session.insecure = access.insecure;
  session.token = access.token;
  return options.standalone ? rendezvous::StartLocalSession(session, handler)
                            : rendezvous::SessionClient::Start(session, handler);
}

}  // namespace mtrun::launcher
