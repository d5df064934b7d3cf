// The rendezvous service: a gRPC server, any number of jobs, one deciding thread. Its methods can be called
// from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/posix.h"
#include "rendezvous/job/eviction.h"

namespace mtrun::rendezvous {

/// Handles an operator's statement that a node never comes back, at a service that does not have the job ("":
/// any). If the node hosts the job and is silent, this service's agent turns to the services of the members.
/// An error says why the request does not count (kNotFound: unknown job). Any thread.
using EvictHost = std::function<absl::StatusOr<Eviction>(const std::string& job_id, const std::string& node)>;

struct ServiceOptions {
  std::string listen;     // "127.0.0.1:0", "[::]:29400": address to bind, and port, 0 for any free one
  bool insecure = false;  // plain text, not TLS from `token`: --insecure was given
  std::string token;
  Duration recovery_window =
      std::chrono::seconds(3);  // how long a new service waits for nodes that still run
  Duration hello_patience = std::chrono::seconds(10);  // limit for the Hello of a new stream
  bool embedded = false;                               // part of an agent, which logs its notices itself
  size_t most_agents = 20'000;                         // at the same time
  std::string job_id = {};  // the job that this agent begins; see JobMachine::Options::host_begins
  // Presence port of this agent, 0 for none.
  int presence_port = 0;
  uint64_t presence_id = 0;
  std::string endpoint = {};  // the endpoint of that job
  // For a standby service: host name or address at which members reach it when it takes the job over; "" for
  // a service at the endpoint.
  std::string standby_address = {};
  std::string state_folder = {};  // for records of memberships for its successor; "": none
  std::string state_host = {};    // name of this machine if others may share that folder; see StateKey
  std::function<void(UniqueFd)> foreign_connections =
      {};                     // gets connections that begin with a zero byte; any thread
  EvictHost evict_host = {};  // for a standby service, see EvictHost
  Duration flush_timeout = std::chrono::seconds(2);  // limit for the wait for acknowledgements at the end
};

class Service {
 public:
  /// Returns kAlreadyExists if the port is in use, kInvalidArgument for a bad address, or if neither
  /// `insecure` nor a token was given.
  static absl::StatusOr<std::unique_ptr<Service>> Start(const ServiceOptions& options);
  /// Waits at most `flush_timeout` until agents have received what was sent to them, then ends every stream.
  virtual ~Service() = default;
  virtual int port() const = 0;
  /// A random id; Identify and Welcome carry it.
  virtual uint64_t id() const = 0;
  /// Returns the ids of nodes that have not learned how their job ended; none after JobMachine::kEndedLinger.
  virtual std::vector<std::string> NodesWithoutOutcome() = 0;
  /// Takes the job's last generation, of which this mtrun has learned; see JobTable. Any thread.
  virtual void AdoptMembership(const std::string& job_id, const Assignment& last) = 0;
};

}  // namespace mtrun::rendezvous
