// How this node joins the job's rendezvous: host, credentials, and the address at which peers reach it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/cli/options.h"
#include "launcher/hosting.h"
#include "launcher/net/presence_port.h"
#include "launcher/store/store_door.h"
#include "rendezvous/session/session_client.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

/// Replaces this machine's own name by localhost in the endpoints to meet at or to ask, unless it resolves. A
/// list of endpoints stays: it is the same text on all nodes. Sets the zone of this process (link_zone.h).
void SettleEndpoints(Options* options);

/// Resolves --local_addr to an address or a name; "auto" waits for the endpoint to resolve. Without it,
/// decides whether Gloo needs the name of an interface. kInvalidArgument lists the interfaces of this
/// machine.
absl::Status SettleLocalAddress(Options* options);

struct RendezvousAccess {
  std::unique_ptr<Hosting> hosting;   // null for a single node
  std::string endpoint;               // with its real port
  std::string address;                // of this node, for peers
  std::string endpoint_address = {};  // see rendezvous::Offer
  bool insecure = false;
  std::string token;
};

/// Starts the service if this node must host it, and determines this node's address. A name may appear in DNS
/// only later, so the lookup is retried until the join timeout. Returns nullopt if a stop signal arrives
/// first (`*signal`). `door`: for clients of PyTorch's store at the endpoint of a static job.
/// kFailedPrecondition if an etcd server answers.
absl::StatusOr<std::optional<RendezvousAccess>> OpenRendezvous(const Options& options,
                                                               const PresencePort& presence, int* signal,
                                                               std::shared_ptr<StoreDoor> door);

/// Returns this node's offer; a random part makes its id unique.
rendezvous::Offer MakeOffer(const Options& options, const RendezvousAccess& access,
                            const PresencePort& presence);

/// Opens a session with the service; a single node gets a local service. Handlers as in SessionClient.
std::unique_ptr<rendezvous::SessionClient> OpenSession(const Options& options, const RendezvousAccess& access,
                                                       const std::string& node_id,
                                                       rendezvous::SessionClient::Handler handler);

}  // namespace mtrun::launcher
