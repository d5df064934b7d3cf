// Addresses of Unix sockets as people write them: a path, or "@name" in Linux's abstract namespace, which no
// file system holds and which is gone with the socket, however its process ended.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "absl/status/statusor.h"

namespace mtrun {

struct UnixAddress {
  sockaddr_un address = {};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// kInvalidArgument for one that is longer than a socket's name may be, or empty.
absl::StatusOr<UnixAddress> ParseUnixAddress(const std::string& text);

/// Whether the process at the other end belongs to this user, or to root: names in the abstract namespace
/// have no owner.
bool IsOfThisUser(int socket);

}  // namespace mtrun
