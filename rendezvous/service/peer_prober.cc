#include "rendezvous/service/peer_prober.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <optional>

#include "base/endpoint.h"
#include "base/posix.h"
#include "rendezvous/client/status_client.h"
#include "rendezvous/service/address_list.h"
#include "rendezvous/service/presence_prober.h"

namespace mtrun::rendezvous {
namespace {

/// Returns nothing for an address that cannot be asked.
std::optional<Presence> TryConnectTo(const addrinfo& address, Duration timeout) {
  const UniqueFd fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  if (!fd.valid() || connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) error = errno;
  if (CannotBeAsked(address, error)) return std::nullopt;
  if (error == EINPROGRESS) {
    pollfd wait = {fd.get(), POLLOUT, 0};
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
    if (poll(&wait, 1, static_cast<int>(milliseconds)) <= 0) return Presence::kSilent;
    socklen_t size = sizeof error;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return Presence::kSilent;
  }
  if (error == 0) return Presence::kOpen;
  // Only the host itself refuses; "unreachable" comes from a router.
  return error == ECONNREFUSED ? Presence::kRefused : Presence::kSilent;
}

PeerService ProbeService(const std::string& endpoint, const ProbeRequest& wanted,
                         const ProbeOptions& options) {
  PeerService peer;
  peer.endpoint = endpoint;
  const Presence presence = TryConnect(endpoint, options.timeout);
  if (presence == Presence::kRefused) peer.state = PeerService::State::kGone;
  if (presence != Presence::kOpen) return peer;
  const auto id = ReadServiceId(endpoint, options.insecure, options.token, options.timeout);
  if (!id.ok()) return peer;
  if (*id == options.service_id) {
    peer.state = PeerService::State::kSelf;
    return peer;
  }
  const PeerService self{.endpoint = options.asks,
                         .generation = wanted.generation,
                         .authority = wanted.authority,
                         .incarnation = wanted.incarnation};
  const auto status =
      ReadStatus(endpoint, options.insecure, options.token, options.timeout, wanted.job_id, self);
  if (!status.ok()) return peer;
  peer.state = PeerService::State::kWithoutJob;
  if (const auto forgotten = status->forgotten.find(wanted.job_id); forgotten != status->forgotten.end())
    peer.last_number = forgotten->second;
  if (const auto ended = status->ended.find(wanted.job_id); ended != status->ended.end())
    peer.ended = ended->second;
  for (const JobView& job : status->jobs) {
    if (job.settings.job_id != wanted.job_id || job.phase == "ended") continue;
    peer.incarnation = job.incarnation;
    peer.proof = job.proof;
    peer.state = PeerService::State::kWithJob;
    peer.generation = job.generation;
    peer.authority = job.authority;
    peer.last_number = std::max(peer.last_number, job.generation.number);
  }
  return peer;
}

}  // namespace

Presence TryConnect(const std::string& text, Duration timeout) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
  if (!endpoint.ok()) return Presence::kSilent;
  return TryConnect(Resolve(*endpoint).get(), timeout);
}

Presence TryConnect(const addrinfo* addresses, Duration timeout) {
  bool refused = false;
  for (const addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    const std::optional<Presence> presence = TryConnectTo(*address, timeout);
    if (presence == Presence::kOpen || presence == Presence::kSilent) return *presence;
    refused = refused || presence == Presence::kRefused;
  }
  return refused ? Presence::kRefused : Presence::kSilent;
}

ProbeResult ProbePeers(const ProbeRequest& wanted, const ProbeOptions& options) {
  std::vector<std::future<PeerService>> peers;
  // If the system has no threads left, they are asked one after the other.
  constexpr std::launch kAtOnceIfPossible = std::launch::async | std::launch::deferred;
  for (const std::string& endpoint : wanted.endpoints) {
    peers.push_back(
        std::async(kAtOnceIfPossible, [&, endpoint] { return ProbeService(endpoint, wanted, options); }));
  }
  ProbeResult looked = ProbePresence(wanted.members, options.timeout);
  for (auto& peer : peers) looked.peers.push_back(peer.get());
  return looked;
}

}  // namespace mtrun::rendezvous
