// Findings of mtrun --doctor about the path to an endpoint and the service there. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "launcher/doctor/finding.h"
#include "launcher/doctor/path_mtu.h"
#include "rendezvous/client/measure_client.h"

namespace mtrun::launcher {

/// Answers of the service.
struct ServiceFacts {
  absl::Status status = absl::OkStatus();  // error if it did not answer
  Duration uptime = Duration::zero();
  size_t jobs = 0;
  bool tells_time = false;
  Duration clock_ahead = Duration::zero();  // this machine's clock minus the service's
  Duration clock_doubt = Duration::zero();  // half of the query's duration
  absl::StatusOr<rendezvous::Throughput> throughput = absl::UnknownError("it was not tried");
};

struct EndpointFacts {
  Endpoint endpoint;
  std::vector<std::string> addresses = {};  // to which its name resolves
  Duration resolving = Duration::zero();
  bool here = false;           // one of them belongs to this machine
  std::string answering = {};  // first address that accepts a connection, "" for none
  std::string failed = {};     // last address that does not, "" for none
  std::string error = {};      // and its error
  Duration round_trip = Duration::zero();
  std::string own_address = {};  // local address of the connection
  std::string interface = {};    // interface with that address, "" on loopback
  int interface_mtu = 0;         // 0: unknown
  PathMtu mtu = {};
  bool insecure = false;                     // the query used no token
  std::optional<ServiceFacts> service = {};  // nullopt: not queried
  std::string not_asked = {};                // reason for that
};

/// Returns one line if no address accepts a connection, otherwise one per measurement.
Findings JudgeEndpoint(const EndpointFacts& facts);

}  // namespace mtrun::launcher
