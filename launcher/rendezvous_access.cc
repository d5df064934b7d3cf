#include "launcher/rendezvous_access.h"

#include <signal.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "launcher/net/etcd_probe.h"
#include "launcher/net/held_port.h"
#include "launcher/workers/guardian.h"
#include "rendezvous/session/local_session.h"
#include "rendezvous/token.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kResolvePause = std::chrono::seconds(1);
constexpr Duration kEtcdPatience = std::chrono::seconds(1);

/// A stop signal that is pending or comes within `pause`; 0 for none.
int StopSignalWithin(Duration pause) {
  const sigset_t signals = StopSignals();
  const timespec time = {static_cast<time_t>(pause.count() / 1'000'000'000),
                         static_cast<long>(pause.count() % 1'000'000'000)};
  const int signal = sigtimedwait(&signals, nullptr, &time);
  return signal > 0 ? signal : 0;
}

absl::Status RefuseEtcd(const Options& options, const Endpoint& endpoint) {
  if (!options.may_be_etcd || !EtcdAnswers(endpoint, kEtcdPatience)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("an etcd server answers at ", options.endpoint,
                   "; mtrun needs none and cannot use it: give --rdzv_backend "
                   "c10d --rdzv_endpoint HOST:29400 instead, where HOST is one of the nodes"));
}

/// Hosts the service at the first endpoint that is this node's, if any.
absl::Status HostIfMine(const Options& options, RendezvousAccess* access) {
  std::vector<std::string> endpoints = options.job.endpoints;
  if (endpoints.empty()) endpoints = {options.endpoint};
  for (const std::string& endpoint : endpoints) {  // one service per agent at most
    if (access->host) break;
    MT_ASSIGN_OR_RETURN(
        access->host, rendezvous::StartIfHost({endpoint, options.is_host, access->insecure, options.insecure,
                                               access->token, options.job.job_id}));
  }
  if (!access->host) {
    log::Info("the rendezvous is at ", access->endpoint, ", hosted elsewhere");
    return absl::OkStatus();
  }
  access->endpoint = access->host->endpoint();
  log::Info("hosting the rendezvous at ", access->endpoint, ": ", access->host->reason());
  return absl::OkStatus();
}

absl::StatusOr<RendezvousAccess> FindRendezvous(const Options& options) {
  RendezvousAccess access;
  access.endpoint = options.endpoint;
  access.address = options.local_addr;
  if (options.standalone) return access;  // nobody else will come
  MT_ASSIGN_OR_RETURN(const Endpoint wanted, ParseEndpoint(options.endpoint));
  MT_RETURN_IF_ERROR(RefuseEtcd(options, wanted));
  const bool on_loopback = IsOnLoopback(options);
  access.insecure = options.insecure || on_loopback;
  if (options.insecure && !on_loopback)
    log::Warning("--insecure: anyone who reaches ", options.endpoint, " may join this job");
  if (!access.insecure) {
    MT_ASSIGN_OR_RETURN(access.token, rendezvous::LoadToken());
  }
  MT_RETURN_IF_ERROR(HostIfMine(options, &access));
  return access;
}

}  // namespace

absl::StatusOr<std::optional<RendezvousAccess>> OpenRendezvous(const Options& options, int* signal) {
  MT_ASSIGN_OR_RETURN(RendezvousAccess access, FindRendezvous(options));
  const TimePoint give_up = MonotonicNow() + options.job.join_timeout;
  while (access.address.empty()) {
    MT_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(access.endpoint));
    absl::StatusOr<std::string> address = AddressTowards(endpoint, access.host != nullptr);
    if (address.ok()) {
      access.address = *std::move(address);
      break;
    }
    if (MonotonicNow() >= give_up) return address.status();
    log::Warning(address.status().message(), "; trying again");
    if ((*signal = StopSignalWithin(kResolvePause)) != 0) return std::nullopt;
  }
  return std::optional<RendezvousAccess>(std::move(access));
}

rendezvous::Offer MakeOffer(const Options& options, const RendezvousAccess& access,
                            const PresencePort& presence) {
  rendezvous::Offer offer;
  offer.host = HostName();
  offer.node_id = absl::StrFormat("%s-%d-%08x", offer.host, getpid(), RandomBits() & 0xFFFFFFFF);
  offer.address = access.address;
  offer.workers = options.workers;
  offer.presence_port = presence.port();
  offer.presence_id = presence.id();
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
