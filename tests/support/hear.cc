#include "tests/support/hear.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/posix.h"
#include "base/status_macros.h"

namespace mtrun::support {
namespace {

std::string NameOf(int error) {
  if (error == ECONNREFUSED) return "refused";
  return error == ECONNRESET ? "reset" : "silent";
}

/// Sets the timeout of a connect and of each read.
void SetPatience(int socket, Seconds patience) {
  const auto microseconds = static_cast<suseconds_t>(patience.count() * 1e6);
  const timeval time = {microseconds / 1'000'000, microseconds % 1'000'000};
  for (const int which : {SO_SNDTIMEO, SO_RCVTIMEO})
    MT_CHECK(setsockopt(socket, SOL_SOCKET, which, &time, sizeof time) == 0);
}

}  // namespace

std::string HearAt(int port, Seconds patience) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  MT_CHECK(socket.valid());
  SetPatience(socket.get(), patience);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return NameOf(errno);
  std::string heard;
  char bytes[64];
  ssize_t size = 0;
  while ((size = read(socket.get(), bytes, sizeof bytes)) > 0) heard.append(bytes, static_cast<size_t>(size));
  return size == 0 ? heard : NameOf(errno);
}

}  // namespace mtrun::support
