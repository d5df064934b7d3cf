// The sockets of a mesh: listen and connect over TCP and abstract Unix sockets. Free functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/port_range.h"
#include "base/posix.h"

namespace mtrun::collectives {

/// Listens on an abstract Unix socket, which has no file and ends with its descriptor.
absl::StatusOr<UniqueFd> ListenUnix(const std::string& name);
/// Listens on a free port of `ports`: only on loopback if `address` is a loopback address or one of its names
/// (IsLoopback, without a lookup), otherwise on all interfaces.
absl::StatusOr<UniqueFd> ListenTcp(const std::string& address, const PortRange& ports, int* port);

/// Start to connect. The sockets are non-blocking, and their connect may still fail. DialTcp resolves host
/// names. kAborted: the Unix socket's queue is full; try again.
absl::StatusOr<UniqueFd> DialUnix(const std::string& name);
absl::StatusOr<std::vector<UniqueFd>> DialTcp(const std::vector<std::string>& addresses, int port);

/// Accepts one waiting connection as a non-blocking socket. Returns an invalid descriptor if there is none.
UniqueFd AcceptOne(int listener);
/// Returns a connection's origin: the peer's address without the port, or its process here; "" if it is gone.
std::string PlaceOf(int fd);
/// Disables the delay of small frames and enables probes that detect dead hosts.
void TuneTcp(int fd);

}  // namespace mtrun::collectives
