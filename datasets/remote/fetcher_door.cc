#include "datasets/remote/fetcher_door.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/unix_address.h"
#include "datasets/cache/cache_layout.h"

namespace mtrun::datasets {
namespace {

absl::StatusOr<UniqueFd> Lock(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno == EWOULDBLOCK) return absl::AlreadyExistsError("this cache already has a fetcher");
  return ErrnoStatus(errno, absl::StrCat("lock ", path));
}

/// Binds through a descriptor of the folder, because a socket's path is limited to 107 characters.
absl::StatusOr<UniqueFd> Listen(const std::string& cache, const std::string& path) {
  unlink(path.c_str());  // left by a killed fetcher: this process holds the lock
  const UniqueFd at(open(cache.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at.valid()) return ErrnoStatus(errno, absl::StrCat("open ", cache));
  MT_ASSIGN_OR_RETURN(const UnixAddress address,
                      ParseUnixAddress(absl::StrCat("/proc/self/fd/", at.get(), "/", FetcherFile("sock"))));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "create a socket");
  if (bind(fd.get(), address.get(), address.size) != 0 || chmod(path.c_str(), 0600) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    return ErrnoStatus(errno, absl::StrCat("listen on ", path));
  }
  return fd;
}

}  // namespace

absl::StatusOr<FetcherDoor> FetcherDoor::Open(const std::string& cache) {
  MT_RETURN_IF_ERROR(MakeCache(cache));
  MT_ASSIGN_OR_RETURN(UniqueFd lock, Lock(absl::StrCat(cache, "/", FetcherFile("lock"))));
  const std::string path = absl::StrCat(cache, "/", FetcherFile("sock"));
  absl::StatusOr<UniqueFd> socket = Listen(cache, path);
  // This is not caused by another fetcher: this process holds the lock.
  if (!socket.ok()) return absl::FailedPreconditionError(socket.status().message());
  return FetcherDoor(std::move(lock), *std::move(socket), path);
}

std::vector<pollfd> FetcherDoor::Waits() const {
  std::vector<pollfd> waits = {{.fd = socket_.get(), .events = POLLIN, .revents = 0}};
  for (const auto& [id, client] : clients_)
    waits.push_back({.fd = client.socket.get(), .events = POLLIN, .revents = 0});
  return waits;
}

/// Returns false if the client has disconnected.
bool FetcherDoor::Read(int64_t id, Client& client, std::vector<News>& news) {
  std::array<char, 64 << 10> bytes;
  const ssize_t read = recv(client.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (read < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (read == 0 || !client.lines.Append({bytes.data(), static_cast<size_t>(read)}).ok()) return false;
  while (const std::optional<std::string> line = client.lines.Next()) {
    const auto message = fetch::Decode(*line);
    if (!message.ok()) {
      log::Warning("disconnecting a client: ", message.status().message());
      return false;
    }
    news.push_back({id, *message});
  }
  return true;
}

std::vector<FetcherDoor::News> FetcherDoor::Hear() {
  while (true) {
    UniqueFd socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) break;
    if (IsOfThisUser(socket.get())) clients_[next_++].socket = std::move(socket);
  }
  std::vector<News> news;
  std::vector<int64_t> gone;
  for (auto& [id, client] : clients_) {
    if (!Read(id, client, news)) gone.push_back(id);
  }
  for (const int64_t id : gone) {
    clients_.erase(id);
    news.push_back({id, std::nullopt});
  }
  return news;
}

void FetcherDoor::Send(int64_t client, const fetch::Message& message) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  const std::string line = fetch::Encode(message);
  const ssize_t sent =
      send(found->second.socket.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // Its end is noticed like that of any other client.
  if (sent != static_cast<ssize_t>(line.size())) shutdown(found->second.socket.get(), SHUT_RDWR);
}

void FetcherDoor::Close() {
  unlink(path_.c_str());
  socket_.Reset();
}

}  // namespace mtrun::datasets
