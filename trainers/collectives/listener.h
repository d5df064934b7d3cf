// The sockets of a mesh: listening and dialing, over TCP and over abstract Unix sockets. Free functions,
// any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/port_range.h"
#include "base/posix.h"

namespace mtrun::collectives {

/// Listens on an abstract Unix socket (it has no file and ends with its descriptor).
absl::StatusOr<UniqueFd> ListenUnix(const std::string& name);
/// Listens on a free port of `ports`: on loopback alone when `address` is a loopback address or one of its
/// names (IsLoopback, nothing is looked up), else on all interfaces.
absl::StatusOr<UniqueFd> ListenTcp(const std::string& address, const PortRange& ports, int* port);

/// Begins to connect; the sockets are non-blocking, and one may still fail. Host names are resolved here.
/// kAborted: too many wait at the Unix socket to be accepted; try again.
absl::StatusOr<UniqueFd> DialUnix(const std::string& name);
absl::StatusOr<std::vector<UniqueFd>> DialTcp(const std::vector<std::string>& addresses, int port);

/// Accepts one waiting connection, non-blocking; an invalid descriptor when there is none.
UniqueFd AcceptOne(int listener);
/// Where the other end of a connection is, as far as it can be told from others: its address without the
/// port, or its process on this machine; "" when it has gone.
std::string PlaceOf(int fd);
/// No delay for small frames, and a probe that finds dead hosts.
void TuneTcp(int fd);

}  // namespace mtrun::collectives
