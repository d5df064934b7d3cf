#include "rendezvous/service/acceptor.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <list>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/socket_address.h"
#include "base/status_macros.h"
#include "rendezvous/service/listening_socket.h"
#include "rendezvous/service/socket_peer.h"
#include "rendezvous/service/unknown_connections.h"

namespace mtrun::rendezvous {
namespace {

using asio::posix::stream_descriptor;

constexpr int kAcceptedATurn = 64;
constexpr auto kPauseWithoutFiles = std::chrono::milliseconds(100);
constexpr Duration kComplaintPause = std::chrono::seconds(1);

/// Each unknown connection costs two descriptors: they get at most half of all.
UnknownConnections::Limits LimitsHere() { return {.most = std::clamp<size_t>(FileLimit() / 4, 64, 16384)}; }

class AsioAcceptor final : public Acceptor {
 public:
  AsioAcceptor(std::vector<UniqueFd> sockets, int port, bool quiet)
      : port_(port), quiet_(quiet), unknown_(LimitsHere()), deadline_(loop_) {
    for (UniqueFd& socket : sockets) listeners_.emplace_back(loop_, std::move(socket));
  }
  ~AsioAcceptor() override { Stop(); }

  int port() const override { return port_; }

  void Begin(Receiver receiver, ForeignConnections foreign_connections) override {
    receiver_ = std::move(receiver);
    foreign_connections_ = std::move(foreign_connections);
    for (Listener& listener : listeners_) AwaitConnections(listener);
    thread_ = std::thread([this] { loop_.run(); });
  }

  void Stop() override {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
    listeners_.clear();
  }

  void OnCall(std::string_view peer) override {
    asio::post(loop_, [this, peer = PlainPeer(peer)] {
      if (const auto id = unknown_.Knows(peer)) watched_.erase(*id);
    });
  }

 private:
  struct Listener {
    Listener(asio::io_context& loop, UniqueFd fd) : socket(loop, fd.Release()), pause(loop) {}
    stream_descriptor socket;
    asio::steady_timer pause;
  };

  void AwaitConnections(Listener& listener) {
    listener.socket.async_wait(stream_descriptor::wait_read, [this, &listener](std::error_code error) {
      if (error) return;
      if (AcceptSome(listener.socket.native_handle())) return AwaitConnections(listener);
      // A connection that cannot be accepted keeps the socket readable: the loop would spin without a pause.
      listener.pause.expires_after(kPauseWithoutFiles);
      listener.pause.async_wait([this, &listener](std::error_code stopped) {
        if (!stopped) AwaitConnections(listener);
      });
    });
  }

  /// Returns false if this process has no descriptor left.
  bool AcceptSome(int listener) {
    for (int i = 0; i < kAcceptedATurn; ++i) {
      sockaddr_storage address = {};
      socklen_t size = sizeof address;
      UniqueFd socket(
          accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid() && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (!socket.valid()) return errno == EAGAIN;
      UniqueFd watched(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
      if (!watched.valid()) return false;
      const uint64_t id = Watch(std::move(watched), PeerOf(address));
      if (foreign_connections_) {
        AwaitFirstByte(id, listener, std::move(socket));
      } else {
        HandOver(listener, std::move(socket));
      }
    }
    return true;
  }

  /// Counted like all unknown connections: one that is closed ends here too.
  void AwaitFirstByte(uint64_t id, int listener, UniqueFd socket) {
    const auto waiting = std::make_shared<stream_descriptor>(loop_, socket.Release());
    waiting->async_wait(stream_descriptor::wait_read, [this, id, listener, waiting](std::error_code error) {
      if (error) return;
      UniqueFd fd(waiting->release());
      char first = 1;
      if (recv(fd.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1 || first != 0)
        return HandOver(listener, std::move(fd));
      watched_.erase(id);
      unknown_.Remove(id);
      foreign_connections_(std::move(fd));
    });
  }

  void HandOver(int listener, UniqueFd socket) {
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = listener;
    connection.fd = socket.Release();
    receiver_->HandleNewConnection(&connection);
  }

  uint64_t Watch(UniqueFd socket, const std::string& peer) {
    const uint64_t id = ++last_id_;
    if (const auto oldest = unknown_.Add(id, peer, MonotonicNow()))
      Cut(*oldest, "too many connections from there have not shown the cluster's token");
    auto& watched = watched_.emplace(id, stream_descriptor(loop_, socket.Release())).first->second;
    watched.async_wait(stream_descriptor::wait_error, [this, id](std::error_code error) {
      if (!error) OnGone(id);
    });
    if (unknown_.size() == 1) AwaitDeadline();
    return id;
  }

  void OnGone(uint64_t id) {
    const auto watched = watched_.find(id);
    const bool spoke = watched != watched_.end() && HasSaidSomething(watched->second.native_handle());
    watched_.erase(id);
    const std::optional<std::string> peer = unknown_.Remove(id);
    if (peer && spoke)
      Complain(*peer, "it has not shown this cluster's token (it has another one, or is not an mtrun)");
  }

  void Cut(uint64_t id, const char* why) {
    if (const auto watched = watched_.find(id); watched != watched_.end()) {
      shutdown(watched->second.native_handle(), SHUT_RDWR);  // gRPC has another descriptor of this socket
      watched_.erase(watched);
    }
    if (const std::optional<std::string> peer = unknown_.Remove(id)) Complain(*peer, why);
  }

  void AwaitDeadline() {
    const std::optional<TimePoint> due = unknown_.NextDeadline();
    if (!due) return;
    deadline_.expires_at(*due);
    deadline_.async_wait([this](std::error_code error) {
      if (error) return;
      for (const uint64_t id : unknown_.Late(MonotonicNow()))
        Cut(id, "it has not shown the cluster's token in 10 s");
      AwaitDeadline();
    });
  }

  void Complain(const std::string& peer, const char* why) {
    ++turned_away_;
    const TimePoint now = MonotonicNow();
    if (quiet_ || now < next_complaint_) return;
    next_complaint_ = now + kComplaintPause;
    log::Warning("turned away ", peer, ": ", why,
                 turned_away_ > 1 ? absl::StrCat(" (", turned_away_, " since the last such line)") : "");
    turned_away_ = 0;
  }

  const int port_;
  const bool quiet_;
  Receiver receiver_;
  ForeignConnections foreign_connections_;
  std::thread thread_;  // after its start, the only thread that uses what follows
  asio::io_context loop_{1};
  std::list<Listener> listeners_;
  UnknownConnections unknown_;
  std::map<uint64_t, stream_descriptor> watched_;  // our own descriptors of unknown connections
  uint64_t last_id_ = 0;
  asio::steady_timer deadline_;
  TimePoint next_complaint_;
  int turned_away_ = 0;  // since the last log line
};

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(const std::vector<Endpoint>& addresses,
                                                           bool quiet) {
  MT_ASSIGN_OR_RETURN(std::vector<UniqueFd> sockets, ListenAt(addresses));
  const int port = PortOf(sockets.front().get());
  return std::make_unique<AsioAcceptor>(std::move(sockets), port, quiet);
}

}  // namespace mtrun::rendezvous
