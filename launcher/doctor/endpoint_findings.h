// What mtrun --doctor makes of the way to an endpoint and of the service there. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "launcher/doctor/finding.h"
#include "launcher/doctor/path_mtu.h"
#include "rendezvous/measure_client.h"

namespace mtrun::launcher {

/// What the service has said.
struct ServiceFacts {
  absl::Status status = absl::OkStatus();  // why it has not
  Duration uptime = Duration::zero();
  size_t jobs = 0;
  bool tells_time = false;
  Duration clock_ahead = Duration::zero();  // how much this machine's clock is ahead of its
  Duration clock_doubt = Duration::zero();  // half of what the question took
  absl::StatusOr<rendezvous::Throughput> throughput = absl::UnknownError("it was not tried");
};

struct EndpointFacts {
  Endpoint endpoint;
  std::vector<std::string> addresses = {};  // that its name leads to
  Duration resolving = Duration::zero();
  bool here = false;           // one of them is this machine's
  std::string answering = {};  // the first address that takes a connection, "" for none
  std::string failed = {};     // the last of those that do not, "" for none
  std::string error = {};      // and why
  Duration round_trip = Duration::zero();
  std::string own_address = {};  // from which this machine reaches it
  std::string interface = {};    // with that address, "" on loopback
  int interface_mtu = 0;         // 0: unknown
  PathMtu mtu = {};
  bool insecure = false;                     // it was asked without a token
  std::optional<ServiceFacts> service = {};  // nothing: it was not asked
  std::string not_asked = {};                // why
};

/// One line where nobody can be reached, else one for each thing that was measured.
Findings JudgeEndpoint(const EndpointFacts& facts);

}  // namespace mtrun::launcher
