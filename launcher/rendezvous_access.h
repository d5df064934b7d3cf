// How this node takes part in the job's rendezvous: who hosts it, with which credentials, and the address at
// which the other nodes reach this one.
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
#include "rendezvous/types.h"

namespace mtrun::launcher {

/// Makes an address or a name of what --local_addr says; "auto" waits for the endpoint to resolve.
/// kInvalidArgument names the interfaces of this machine.
absl::Status SettleLocalAddress(Options* options);

struct RendezvousAccess {
  std::unique_ptr<Hosting> hosting;  // null for a node alone
  std::string endpoint;              // with its real port
  std::string address;               // this node's, for peers
  std::string interface = {};        // with that address, where --local_addr was given; "" for none
  bool insecure = false;
  std::string token;
};

/// Starts the service where it is this node's to host, and finds out this node's address: a name may appear
/// in DNS only later, so that is tried until the job's join timeout. Nothing when a stop signal came first
/// (`*signal`). `door`: for those who look for PyTorch's store at the endpoint of a static job.
/// kFailedPrecondition where an etcd server answers.
absl::StatusOr<std::optional<RendezvousAccess>> OpenRendezvous(const Options& options,
                                                               const PresencePort& presence, int* signal,
                                                               std::shared_ptr<StoreDoor> door);

/// What this node offers; a random part makes its id unique.
rendezvous::Offer MakeOffer(const Options& options, const RendezvousAccess& access,
                            const PresencePort& presence);

/// A session with the service, or with one of its own for a node alone. Handlers as SessionClient's.
std::unique_ptr<rendezvous::SessionClient> OpenSession(const Options& options, const RendezvousAccess& access,
                                                       const std::string& node_id,
                                                       rendezvous::SessionClient::Handler handler);

}  // namespace mtrun::launcher
