// The rendezvous service: gRPC in front, any number of jobs behind, one deciding thread. Its methods may be
// called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/posix.h"
#include "rendezvous/eviction.h"

namespace mtrun::rendezvous {

/// An operator says that a node never comes back, to a service that does not have the job ("": any). Where
/// that node hosts it and is silent, the agent in which this service lives turns to the services of the
/// members. An error says why the word does not count, kNotFound: there is no such job. Any thread.
using EvictHost = std::function<absl::StatusOr<Eviction>(const std::string& job_id, const std::string& node)>;

struct ServiceOptions {
  std::string listen;     // "127.0.0.1:0", "[::]:29400": an address to bind and a port, 0 for any free one
  bool insecure = false;  // plain text instead of TLS from `token`: somebody gave --insecure
  std::string token;
  Duration recovery_window =
      std::chrono::seconds(3);  // how long a new service waits for nodes that still run
  Duration hello_patience = std::chrono::seconds(10);  // how long a stream may take until it says Hello
  bool embedded = false;                               // in an agent, which logs what it is told
  size_t most_agents = 20'000;                         // at once
  std::string own_job = {};                            // of that agent, which begins with it
  // Of that agent: its presence port, 0 for none.
  int presence_port = 0;
  uint64_t presence_id = 0;
  std::string endpoint = {};  // of its job
  // Not at that endpoint: where its members reach this service when it takes the job over, a host name or an
  // address; "" for a service at the endpoint.
  std::string standby_address = {};
  std::string state_folder = {};  // where it writes down who is in its jobs, for its successor; "": nowhere
  std::string state_host = {};    // this machine's name where others may use that folder too; see StateKey
  std::function<void(UniqueFd)> strangers = {};  // gets connections that begin with a zero byte; any thread
  EvictHost evict_host = {};                     // of one that stands by, see there
  Duration flush_timeout = std::chrono::seconds(2);  // how long the end may wait for acknowledgements
};

class Service {
 public:
  /// kAlreadyExists when the port is in use, kInvalidArgument for a bad address and where neither `insecure`
  /// nor a token was given.
  static absl::StatusOr<std::unique_ptr<Service>> Start(const ServiceOptions& options);
  /// Lets agents hear what was sent to them, for `flush_timeout` at most, then ends every stream.
  virtual ~Service() = default;
  virtual int port() const = 0;
  /// Random; Identify and Welcome carry it.
  virtual uint64_t id() const = 0;
  /// Ids of nodes that have not heard how their job ended; after JobMachine::kEndedLinger none.
  virtual std::vector<std::string> Untold() = 0;
  /// The mtrun that it lives in has heard that this is the job's last generation; see JobTable. Any thread.
  virtual void Learn(const std::string& job_id, const Assignment& last) = 0;
};

}  // namespace mtrun::rendezvous
