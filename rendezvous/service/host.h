// Decides which node hosts the rendezvous service, and runs it inside mtrun: the agent that can bind the
// endpoint's port and then reads its own nonce back through it. Names, aliases and NAT do not matter.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/port_range.h"
#include "rendezvous/service/service.h"

namespace mtrun::rendezvous {

/// Options of an agent's service, without `listen` and `standby_address`. `endpoint` is host:port; port 0 with
/// a loopback host: any free port (standalone).
struct HostOptions : ServiceOptions {
  bool all_addresses = false;   // listens on all of them even if the endpoint's is on loopback
  std::optional<bool> is_host;  // overrides the test
  PortRange ports = {};         // where a standby service listens
};

/// A running service, which ends with it.
class Host {
 public:
  Host(std::unique_ptr<Service> service, std::string endpoint, std::string reason)
      : service_(std::move(service)), endpoint_(std::move(endpoint)), reason_(std::move(reason)) {}
  /// Returns the endpoint with its real port.
  const std::string& endpoint() const { return endpoint_; }
  /// Returns why this agent hosts, for the log.
  const std::string& reason() const { return reason_; }
  /// See Service.
  std::vector<std::string> NodesWithoutOutcome() { return service_->NodesWithoutOutcome(); }
  void AdoptMembership(const std::string& job_id, const Assignment& last) {
    service_->AdoptMembership(job_id, last);
  }

 private:
  const std::unique_ptr<Service> service_;
  const std::string endpoint_, reason_;
};

/// Returns the running service if this node hosts, nullptr if another one does. Fails only if `is_host` is
/// true and the port cannot be bound (kAlreadyExists: "port 29400 is in use"), or the endpoint is malformed
/// (kInvalidArgument).
absl::StatusOr<std::unique_ptr<Host>> StartIfHost(const HostOptions& options);

/// Starts a service on a free port of `options.ports` that serves if the one at the endpoint is dead. Other
/// nodes reach this one at `address`.
absl::StatusOr<std::unique_ptr<Host>> StartStandby(const HostOptions& options, const std::string& address);

}  // namespace mtrun::rendezvous
