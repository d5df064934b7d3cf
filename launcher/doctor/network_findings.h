// What mtrun --doctor makes of ports, clock, token, names and addresses of this machine. Pure.
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
  int endpoint_port = kDefaultEndpointPort;  // 0: another machine's, nothing is to be free here
  std::string endpoint_error = {};           // why nobody can listen there
  int low = 0, high = 0;                     // what the kernel gives out; 0: not known
  std::string free_error = {};               // why it gives out none
  PortRange range = {};                      // --port_range
  int free_in_range = 0;
};
struct ClockFacts {
  bool known = false;
  bool synchronised = false;
  Duration most_wrong = Duration::zero();  // as the kernel estimates it
};
struct TokenFacts {
  bool insecure = false;
  std::string from = {};  // "MTRUN_TOKEN", the file's name
  bool given = false;     // by a flag: mtrun makes none
  absl::Status status = absl::OkStatus();
  std::string make_error = {};  // why mtrun cannot make one where there is none
};
struct NameFacts {
  std::string own = {};
  std::vector<std::string> addresses = {};
  Duration took = Duration::zero();
};
/// All of them. `several`: nodes of other machines are to be reached.
struct NodeFacts {
  bool several = false;
  PortFacts ports = {};
  ClockFacts clock = {};
  TokenFacts token = {};
  NameFacts name = {};
  std::string local_addr = {};                          // as it was given
  absl::StatusOr<std::string> address = std::string();  // what it comes to
  std::vector<InterfaceAddress> interfaces = {};
};

Findings JudgePorts(const PortFacts& ports);
Finding JudgeClock(const ClockFacts& clock);
Finding JudgeToken(const TokenFacts& token, bool several);
Finding JudgeName(const NameFacts& name, bool several);
/// --local_addr; without it the addresses that there are.
Finding JudgeAddress(const NodeFacts& node);
Findings JudgeNode(const NodeFacts& node);

}  // namespace mtrun::launcher
