// Addresses of Unix sockets as people write them: a path, or "@name" in Linux's abstract namespace. An
// abstract name is in no file system and disappears with its socket, however the process ended.
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

/// Parses an address; kInvalidArgument if it is empty or longer than a socket name can be.
absl::StatusOr<UnixAddress> ParseUnixAddress(const std::string& text);

/// Returns whether the peer is this user's process, or root's. Names in the abstract namespace have no owner.
bool IsOfThisUser(int socket);

}  // namespace mtrun
