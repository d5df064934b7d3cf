// Decides who hosts the rendezvous service and runs it inside mtrun. The agent that can bind the endpoint's
// port and then reads its own nonce back through the endpoint hosts; names, aliases and NAT do not matter.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/port_range.h"
#include "base/posix.h"
#include "rendezvous/service/service.h"

namespace mtrun::rendezvous {

struct HostOptions {
  std::string endpoint;         // host:port; port 0 with a loopback host: any free port (standalone)
  std::optional<bool> is_host;  // overrides the test
  bool insecure = false;        // plain text instead of TLS from `token`
  std::string token;
  std::string job_id = {};  // what this agent begins; see JobMachine::Options::host_begins
  int presence_port = 0;    // of this mtrun, 0: none
  PortRange ports = {};     // where a service listens that stands by
  uint64_t presence_id = 0;
  std::string state_folder = {}, state_host = {};  // see ServiceOptions
  std::function<void(UniqueFd)> strangers = {};
  EvictHost evict_host = {};
};

class Host {
 public:
  virtual ~Host() = default;  // stops the service
  /// The endpoint with its real port.
  virtual std::string endpoint() const = 0;
  /// Why this agent hosts, for the log.
  virtual std::string reason() const = 0;
  /// See Service.
  virtual std::vector<std::string> Untold() = 0;
  virtual void Learn(const std::string& job_id, const Assignment& last) = 0;
};

/// The running service when this node hosts; nullptr when another one does. Errors only when `is_host` is
/// true and the port cannot be bound (kAlreadyExists: "port 29400 is in use"), or the endpoint is malformed
/// (kInvalidArgument).
absl::StatusOr<std::unique_ptr<Host>> StartIfHost(const HostOptions& options);

/// A service on a free port of `options.ports` that serves when the one at the endpoint is dead. `address`:
/// where the other nodes reach this one.
absl::StatusOr<std::unique_ptr<Host>> StartStandby(const HostOptions& options, const std::string& address);

}  // namespace mtrun::rendezvous
