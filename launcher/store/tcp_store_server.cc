#include "launcher/store/tcp_store_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio.hpp>
#include <cerrno>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "base/socket_address.h"
#include "base/status_macros.h"
#include "base/unauthenticated_connections.h"
#include "launcher/store/store_state.h"

namespace mtrun::launcher {
namespace {

using asio::posix::stream_descriptor;

constexpr int kAcceptedATurn = 64;
constexpr int kReadsInARow = 8;  // before the other clients get their turn
constexpr auto kPauseWithoutFiles = std::chrono::milliseconds(100);
constexpr auto kComplaintPause = std::chrono::seconds(1);
constexpr auto kGreetingPatience = std::chrono::seconds(10);
// PyTorch clones a store for some kinds of process groups: a worker may have dozens of connections.
constexpr size_t kClientsAWorker = 64, kClientsBesides = 64, kFilesBesides = 512;
constexpr size_t kHeldAWorker = 64 << 20, kHeldBesides = size_t{1} << 30;
constexpr size_t kMaxUnsent = 1 << 20;  // stop reading from a client that does not read its answers

/// Returns whether the peer is on this machine: over loopback, or with equal addresses on both ends.
bool IsFromHere(int socket) {
  const std::string from = PeerAddressOf(socket), to = LocalAddressOf(socket);
  return !from.empty() && !to.empty() && (IsLoopback(from) || from == to);
}

class Server;

/// One client; lives as long as an operation on it is pending.
class Client : public std::enable_shared_from_this<Client> {
 public:
  Client(asio::io_context& io, UniqueFd socket, int64_t id, std::string address, Server& server)
      : id_(id),
        address_(std::move(address)),
        socket_(io, socket.Release()),
        greeting_(io),
        server_(server) {}

  void Begin() {
    greeting_.expires_after(kGreetingPatience);
    greeting_.async_wait([self = shared_from_this()](std::error_code error) {
      if (!error && !self->parser_.validated()) self->Close();
    });
    Read();
  }
  void Send(std::string bytes);
  void Close();
  /// Returns the bytes of incomplete requests, waits and unread answers.
  size_t held() const;
  int64_t id() const { return id_; }
  const std::string& address() const { return address_; }

  size_t counted = 0;  // used by the server: part of its held_

 private:
  void Read();
  void ReadAvailable();
  void CloseBecause(const absl::Status& status);
  /// Handles the complete requests, as long as the client reads its answers.
  absl::Status TakeRequests();
  void Write();

  const int64_t id_;
  const std::string address_;
  stream_descriptor socket_;
  asio::steady_timer greeting_;
  Server& server_;
  bool open_ = true, reading_ = false, writing_ = false;
  StoreParser parser_;
  std::string unsent_, sending_;
};

class Server final : public TcpStoreServer {
 public:
  Server(UniqueFd socket, Options options)
      : options_(options), listener_(io_, socket.Release()), pause_(io_), work_(io_.get_executor()) {
    AwaitConnections();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Server() override {
    io_.stop();
    thread_.join();
    // Pending operations own the clients, and the loop owns the operations.
    std::exchange(clients_, {});
  }

  void Adopt(UniqueFd connection) override {
    asio::post(io_, [this, fd = std::make_shared<UniqueFd>(std::move(connection))] { Add(std::move(*fd)); });
  }

  void StartOver(Options options) override {
    asio::post(io_, [this, options] {
      options_ = options;
      while (!clients_.empty()) std::shared_ptr(clients_.begin()->second)->Close();
      state_ = StoreState();
    });
  }

  absl::Status OnRequest(int64_t client, StoreRequest request) {
    MT_ASSIGN_OR_RETURN(std::vector<StoreAnswer> answers, state_.Apply(client, std::move(request)));
    for (StoreAnswer& answer : answers) {
      const auto found = clients_.find(answer.client);
      if (found != clients_.end()) found->second->Send(std::move(answer.bytes));
    }
    return absl::OkStatus();
  }
  size_t bytes_waiting(const Client& client) const { return state_.bytes_waiting(client.id()); }
  /// Handles a client that sent or read something, or whose wait ended.
  void OnTurn(Client& client) {
    client_groups_.Renew(static_cast<uint64_t>(client.id()));
    held_ += client.held() - client.counted;
    client.counted = client.held();
    if (held_ > options_.most_held) CloseGreediest();
  }
  void OnClosed(const Client& client) {
    state_.Forget(client.id());
    client_groups_.Remove(static_cast<uint64_t>(client.id()));
    held_ -= client.counted;
    clients_.erase(client.id());
  }

 private:
  void AwaitConnections() {
    listener_.async_wait(stream_descriptor::wait_read, [this](std::error_code error) {
      if (error) return;
      if (AcceptSome()) return AwaitConnections();
      pause_.expires_after(kPauseWithoutFiles);  // the port stays readable: without a pause it would spin
      pause_.async_wait([this](std::error_code stopped) {
        if (!stopped) AwaitConnections();
      });
    });
  }

  /// Returns false if this process is out of descriptors.
  bool AcceptSome() {
    for (int i = 0; i < kAcceptedATurn; ++i) {
      UniqueFd socket(accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid() && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (!socket.valid()) return errno == EAGAIN;
      Add(std::move(socket));
    }
    return true;
  }

  void Add(UniqueFd socket) {
    if (options_.this_machine_only && !IsFromHere(socket.get())) return;
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int64_t id = ++last_id_;
    const std::string address = PeerAddressOf(socket.get());
    const auto client = std::make_shared<Client>(io_, std::move(socket), id, address, *this);
    clients_.emplace(id, client);
    client_groups_.Add(static_cast<uint64_t>(id), address);
    client->Begin();
    if (clients_.size() > options_.most_clients) CloseQuietest();
  }

  void CloseQuietest() {
    const std::shared_ptr<Client> client = clients_.at(static_cast<int64_t>(client_groups_.First()));
    Cut(*client, absl::StrCat("more than ", options_.most_clients, " connections, most from ",
                              PlaceOfAddress(client->address()), "; the quietest one is closed"));
  }

  /// Closes the largest connection of the place that holds most: a few large ones must not displace many.
  void CloseGreediest() {
    std::map<std::string, size_t> held;
    for (const auto& [id, client] : clients_) held[PlaceOfAddress(client->address())] += client->counted;
    const auto by_size = [](const auto& a, const auto& b) { return a.second < b.second; };
    const std::string place = std::max_element(held.begin(), held.end(), by_size)->first;
    std::shared_ptr<Client> greediest;
    for (const auto& [id, client] : clients_) {
      if (PlaceOfAddress(client->address()) != place) continue;
      if (!greediest || client->counted > greediest->counted) greediest = client;
    }
    Cut(*greediest, absl::StrCat("more than ", options_.most_held,
                                 " bytes are in unfinished requests, waits and unread answers, ",
                                 "most from ", place, "; its largest connection is closed"));
  }

  void Cut(Client& client, const std::string& why) {
    client.Close();
    const TimePoint now = MonotonicNow();
    if (now < next_complaint_) return;
    next_complaint_ = now + kComplaintPause;
    log::Warning("store on MASTER_PORT: ", why);
  }

  std::thread thread_;  // once it runs, the only thread that uses the members below
  Options options_;
  StoreState state_;
  std::map<int64_t, std::shared_ptr<Client>> clients_;
  UnauthenticatedConnections client_groups_;  // groups of clients_
  size_t held_ = 0;                           // total of clients_
  TimePoint next_complaint_;
  int64_t last_id_ = 0;
  asio::io_context io_{1};  // declared after the objects that its handlers use
  stream_descriptor listener_;
  asio::steady_timer pause_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
};

size_t Client::held() const {
  return parser_.held() + server_.bytes_waiting(*this) + unsent_.size() + sending_.size();
}

void Client::Read() {
  if (reading_ || !open_) return;
  reading_ = true;
  socket_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](std::error_code error) {
    self->reading_ = false;
    if (error) return self->Close();
    self->ReadAvailable();
    if (self->open_) self->server_.OnTurn(*self);
    if (self->unsent_.size() < kMaxUnsent) self->Read();
  });
}

void Client::ReadAvailable() {
  std::array<char, 16 << 10> bytes;
  for (int i = 0; i < kReadsInARow && open_ && unsent_.size() < kMaxUnsent; ++i) {
    const ssize_t size = recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) return Close();
    parser_.Append({bytes.data(), static_cast<size_t>(size)});
    const absl::Status status = TakeRequests();
    if (!status.ok()) return CloseBecause(status);
  }
}

absl::Status Client::TakeRequests() {
  while (open_ && unsent_.size() < kMaxUnsent) {
    MT_ASSIGN_OR_RETURN(std::optional<StoreRequest> request, parser_.Next());
    if (!request) break;
    if (request->command == StoreCommand::kValidate) greeting_.cancel();
    MT_RETURN_IF_ERROR(server_.OnRequest(id_, *std::move(request)));
  }
  return absl::OkStatus();
}

void Client::Send(std::string bytes) {
  if (!open_) return;
  unsent_ += bytes;
  if (!writing_ && !unsent_.empty()) Write();
}

/// Writes one buffer at a time: `sending_` must not change before its handler runs.
void Client::Write() {
  writing_ = true;
  sending_ = std::exchange(unsent_, {});
  asio::async_write(socket_, asio::buffer(sending_),
                    [self = shared_from_this()](std::error_code error, size_t) {
                      self->writing_ = false;
                      if (error) return self->Close();
                      std::string().swap(self->sending_);  // frees its memory
                      if (!self->open_) return;
                      if (!self->unsent_.empty()) self->Write();
                      const absl::Status status = self->TakeRequests();
                      if (!status.ok()) return self->CloseBecause(status);
                      if (self->open_) self->server_.OnTurn(*self);
                      if (self->unsent_.size() < kMaxUnsent) self->Read();
                    });
}

/// Logs only the loss of a worker, not an unknown client at the port.
void Client::CloseBecause(const absl::Status& status) {
  if (parser_.validated())
    log::Warning("store on MASTER_PORT: ", status.message(), "; the connection is closed");
  Close();
}

void Client::Close() {
  if (!std::exchange(open_, false)) return;
  greeting_.cancel();
  std::error_code ignored;
  socket_.close(ignored);
  server_.OnClosed(*this);
}

}  // namespace

TcpStoreServer::Options TcpStoreServer::OptionsFor(int workers, bool this_machine_only, size_t file_limit) {
  const auto count = static_cast<size_t>(workers);
  // Half of the files, or more if two connections per worker, the minimum for programs, need more.
  const size_t needed = kClientsBesides + 2 * count, spare = file_limit - std::min(file_limit, kFilesBesides);
  const size_t files = std::max({file_limit / 2, kClientsBesides, std::min(needed, spare)});
  return {.this_machine_only = this_machine_only,
          .most_clients = std::min(kClientsBesides + count * kClientsAWorker, files),
          .most_held = kHeldBesides + count * kHeldAWorker};
}

absl::StatusOr<std::unique_ptr<TcpStoreServer>> TcpStoreServer::Start(UniqueFd socket, Options options) {
  const int flags = fcntl(socket.get(), F_GETFL);
  if (fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0 || listen(socket.get(), SOMAXCONN) != 0)
    return ErrnoStatus(errno, "listen on MASTER_PORT");
  return std::make_unique<Server>(std::move(socket), options);
}

}  // namespace mtrun::launcher
