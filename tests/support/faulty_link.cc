#include "tests/support/faulty_link.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/posix.h"
#include "base/status_macros.h"
#include "tests/support/tcp_client.h"

namespace mtrun::support {
namespace {

// Rate towards the client, per connection: 400 kB/s.
constexpr std::chrono::milliseconds kTick(5);
constexpr size_t kPiece = 2048;
constexpr std::chrono::milliseconds kMoment(50);

UniqueFd Connect(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = AddressOf("127.0.0.1", port);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.Reset();
  return fd;
}

/// Notifies the other end at once and drops all data still in transit.
void Reset(UniqueFd& fd) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  fd.Reset();
}

bool HasGone(int fd) {
  pollfd look = {fd, POLLRDHUP, 0};
  return poll(&look, 1, 0) == 1;
}

}  // namespace

struct FaultyLink::Connection {
  UniqueFd client, server;
  Clock::time_point carried = {};

  ~Connection() {
    Reset(client);
    Reset(server);
  }
};

FaultyLink::FaultyLink(const std::string& address, int port, int target) : target_(target) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in place = AddressOf(address, port);
  MT_CHECK(bind(listener_, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0) << errno;
  MT_CHECK(listen(listener_, 64) == 0) << errno;
  socklen_t size = sizeof place;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&place), &size);
  port_ = ntohs(place.sin_port);
  thread_ = std::thread([this] { Run(); });
}

FaultyLink::~FaultyLink() {
  over_ = true;
  thread_.join();
  close(listener_);
}

void FaultyLink::Set(Mode mode) {
  const std::lock_guard lock(mu_);
  mode_ = mode;
  if (mode == Mode::kRefuses) connections_.clear();
}

int FaultyLink::Cut() {
  const std::lock_guard lock(mu_);
  int busy = 0;
  for (const auto& connection : connections_) busy += Clock::now() - connection->carried < kMoment ? 1 : 0;
  connections_.clear();
  return busy;
}

void FaultyLink::Run() {
  for (; !over_; std::this_thread::sleep_for(kTick)) {
    const std::lock_guard lock(mu_);
    Accept();
    if (mode_ == Mode::kHolds) continue;
    std::erase_if(connections_, [this](const auto& connection) { return !Carry(*connection); });
  }
}

void FaultyLink::Accept() {
  for (int fd = 0; (fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    auto connection = std::make_unique<Connection>();
    connection->client = UniqueFd(fd);
    if (mode_ != Mode::kRefuses) connection->server = Connect(target_);
    if (connection->server.valid()) connections_.push_back(std::move(connection));
  }
}

/// Returns false if one of the ends has closed.
bool FaultyLink::Carry(Connection& connection) {
  return !HasGone(connection.server.get()) && CarryUp(connection) && CarryDown(connection);
}

bool FaultyLink::CarryUp(const Connection& connection) {
  std::array<char, 16 << 10> bytes;
  const ssize_t size = recv(connection.client.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN;
  return size > 0 && SendAll(connection.server.get(), {bytes.data(), static_cast<size_t>(size)});
}

bool FaultyLink::CarryDown(Connection& connection) {
  std::array<char, kPiece> bytes;
  const ssize_t size = recv(connection.server.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN;
  if (size == 0) return false;
  if (change_next_.exchange(false)) {
    bytes[static_cast<size_t>(size) / 2] ^= 1;
    ++changed_;
  }
  connection.carried = Clock::now();
  carried_ += size;
  return SendAll(connection.client.get(), {bytes.data(), static_cast<size_t>(size)});
}

}  // namespace mtrun::support
