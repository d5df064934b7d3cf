// Findings of mtrun --doctor about ports, clock, token, names and addresses of this machine. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/port_range.h"
#include "launcher/doctor/finding.h"
#include "launcher/net/local_address.h"

namespace mtrun::launcher {

struct PortFacts {
  int endpoint_port = kDefaultEndpointPort;  // 0: on another machine, no port needed here
  std::string endpoint_error = {};           // error of listening there
  int low = 0, high = 0;                     // kernel's ephemeral ports; 0: unknown
  std::string free_error = {};               // error of getting an ephemeral port
  PortRange range = {};                      // --port_range
  int free_in_range = 0;
};
struct ClockFacts {
  bool known = false;
  bool synchronised = false;
  Duration most_wrong = Duration::zero();  // the kernel's estimate
};
struct TokenFacts {
  bool insecure = false;
  std::string from = {};  // "MTRUN_TOKEN", or the file's name
  bool given = false;     // by a flag: mtrun makes none
  absl::Status status = absl::OkStatus();
  std::string make_error = {};  // reason why mtrun cannot make a missing one
};
struct NameFacts {
  std::string own = {};
  std::vector<std::string> addresses = {};
  Duration took = Duration::zero();
};
/// All of them. `several`: nodes on other machines must be reached.
struct NodeFacts {
  bool several = false;
  PortFacts ports = {};
  ClockFacts clock = {};
  TokenFacts token = {};
  NameFacts name = {};
  std::string local_addr = {};                          // as given
  absl::StatusOr<std::string> address = std::string();  // resolved
  std::vector<InterfaceAddress> interfaces = {};
};

Findings JudgePorts(const PortFacts& ports);
Finding JudgeClock(const ClockFacts& clock);
Finding JudgeToken(const TokenFacts& token, bool several);
Finding JudgeName(const NameFacts& name, bool several);
/// Judges --local_addr; if it is not given, the available addresses.
Finding JudgeAddress(const NodeFacts& node);
Findings JudgeNode(const NodeFacts& node);

}  // namespace mtrun::launcher
