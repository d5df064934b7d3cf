#include "base/unix_address.h"

#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace mtrun {

absl::StatusOr<UnixAddress> ParseUnixAddress(const std::string& text) {
  UnixAddress result;
  result.address.sun_family = AF_UNIX;
  if (text.empty() || text.size() >= sizeof result.address.sun_path)
    return absl::InvalidArgumentError(absl::StrCat("not a valid name of a Unix socket: \"", text, "\""));
  std::memcpy(result.address.sun_path, text.data(), text.size());
  const bool abstract = text.front() == '@';
  if (abstract) result.address.sun_path[0] = '\0';
  // A path includes its terminating zero; an abstract name does not.
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size() + (abstract ? 0 : 1));
  return result;
}

bool IsOfThisUser(int socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

}  // namespace mtrun
