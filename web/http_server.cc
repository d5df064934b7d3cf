#include "web/http_server.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <map>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "web/connection.h"
#include "web/connection_slots.h"
#include "web/listener.h"

namespace mtrun::web {
namespace {

namespace asio = boost::asio;

// Pause before the next accept if the system has no free descriptor.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

/// Posts replies from other threads into the loop until the server is destroyed. Thread-safe.
class LoopDoor {
 public:
  explicit LoopDoor(asio::io_context& io) : io_(&io) {}

  template <typename Work>
  void Post(Work work) {
    MutexLock lock(mu_);
    if (io_ != nullptr) asio::post(*io_, std::move(work));
  }

  void Shut() {
    MutexLock lock(mu_);
    io_ = nullptr;
  }

 private:
  Mutex mu_;
  asio::io_context* io_ ABSL_GUARDED_BY(mu_);
};

/// Starts a thread that receives none of the process's signals, because those belong to the caller.
std::thread StartWithoutSignals(std::function<void()> run) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

class Server : public HttpServer, public Connection::Owner {
 public:
  Server(Listener listener, const Service& service, const Limits& limits)
      : limits_(limits),
        tls_(service.tls),
        exchanged_(service.exchanged),
        router_(service.routes),
        port_(listener.port),
        slots_(limits.connections),
        incoming_(io_, listener.socket.get()),
        pause_(io_) {
    listener.socket.Release();
    AwaitConnection();
    thread_ = StartWithoutSignals([this] { io_.run(); });
  }

  ~Server() override {
    door_->Shut();
    io_.stop();
    thread_.join();
  }

  int port() const override { return port_; }
  int64_t connections() const override { return open_; }

  bool Finish(Duration timeout) override {
    const TimePoint deadline = MonotonicNow() + timeout;
    door_->Post([this] {
      finishing_ = true;
      incoming_.close();
      const auto connections = connections_;  // a copy, because Finish can remove connections
      for (const auto& [id, connection] : connections) connection->Finish();
      TellIfEmpty();
    });
    const MutexLock lock(mu_);
    while (!empty_) {
      if (!emptied_.WaitUntil(mu_, deadline)) return empty_;
    }
    return true;
  }

 private:
  void AwaitConnection() {
    incoming_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code&) {
      if (!finishing_) AcceptOne();
    });
  }

  /// Accepts one connection per turn, so that existing connections are read in between.
  void AcceptOne() {
    absl::StatusOr<std::optional<Accepted>> accepted = Accept(incoming_.native_handle());
    if (!accepted.ok()) return Pause(accepted.status());
    paused_ = false;
    if (accepted->has_value()) Admit(*std::move(*accepted));
    AwaitConnection();
  }

  void Pause(const absl::Status& reason) {
    if (!std::exchange(paused_, true)) log::Warning("port ", port_, ": ", reason.message());
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](const boost::system::error_code&) {
      if (!finishing_) AwaitConnection();
    });
  }

  void Admit(Accepted accepted) {
    const int64_t id = next_id_++;
    const ConnectionSlots::Admission admission = slots_.Admit(id, accepted.peer);
    if (admission.evicted) connections_.at(*admission.evicted)->Close();
    if (!admission.admitted) return;
    const auto connection =
        std::make_shared<Connection>(io_, std::move(accepted.socket), id, limits_, tls_.get(), *this);
    connections_[id] = connection;
    peers_[id] = accepted.peer;
    ++open_;
    connection->Start();
  }

  void OnWaits(int64_t id, Waits waits) override { slots_.Change(id, waits); }

  void OnRequest(int64_t id, Request request) override {
    request.peer = peers_[id];
    const Router::Found found = router_.Find(request.method, request.path);
    if (found.handler == nullptr) return connections_.at(id)->Answer(found.otherwise);
    (*found.handler)(std::move(request), [this, id, door = door_](Response response) {
      door->Post([this, id, response = std::move(response)] {
        if (response.authenticated) slots_.SetAuthenticated(id);
        const auto connection = connections_.find(id);
        if (connection != connections_.end()) return connection->second->Answer(response);
        if (response.live) response.live->Detach();
      });
    });
  }

  std::function<void()> WakerOf(int64_t id) override {
    return [this, id, door = door_] {
      door->Post([this, id] {
        const auto connection = connections_.find(id);
        if (connection == connections_.end()) return;
        const std::shared_ptr<Connection> kept = connection->second;  // alive during the call
        kept->OnWake();
      });
    };
  }

  void OnExchange(int64_t id, const Exchange& exchange) override {
    if (!exchanged_) return;
    Exchange told = exchange;
    told.peer = peers_[id];
    exchanged_(told);
  }

  void OnClosed(int64_t id) override {
    slots_.Remove(id);
    connections_.erase(id);
    peers_.erase(id);
    --open_;
    TellIfEmpty();
  }

  void TellIfEmpty() {
    if (!finishing_ || !connections_.empty()) return;
    const MutexLock lock(mu_);
    empty_ = true;
    emptied_.NotifyAll();
  }

  // Constant after construction.
  const Limits limits_;
  const std::shared_ptr<TlsContext> tls_;
  const std::function<void(const Exchange&)> exchanged_;
  const Router router_;
  const int port_;

  // Used on the loop thread only.
  asio::io_context io_;
  ConnectionSlots slots_;
  std::map<int64_t, std::shared_ptr<Connection>> connections_;
  int64_t next_id_ = 0;
  asio::posix::stream_descriptor incoming_;  // the listening socket
  asio::steady_timer pause_;
  bool paused_ = false;
  bool finishing_ = false;
  std::map<int64_t, std::string> peers_;  // by connection id

  std::atomic<int64_t> open_ = 0;
  Mutex mu_;
  Condition emptied_;
  bool empty_ ABSL_GUARDED_BY(mu_) = false;

  const std::shared_ptr<LoopDoor> door_ = std::make_shared<LoopDoor>(io_);
  std::thread thread_;
};

/// Several servers on one socket, each with its own thread and connections.
class Group : public HttpServer {
 public:
  explicit Group(std::vector<std::unique_ptr<Server>> servers) : servers_(std::move(servers)) {}

  int port() const override { return servers_.front()->port(); }
  int64_t connections() const override {
    int64_t sum = 0;
    for (const auto& server : servers_) sum += server->connections();
    return sum;
  }
  bool Finish(Duration timeout) override {
    const TimePoint deadline = MonotonicNow() + timeout;
    std::vector<std::future<bool>> finished;
    for (const auto& server : servers_) {
      finished.push_back(
          std::async(std::launch::async, [&] { return server->Finish(deadline - MonotonicNow()); }));
    }
    bool all = true;
    for (std::future<bool>& one : finished) all = one.get() && all;
    return all;
  }

 private:
  const std::vector<std::unique_ptr<Server>> servers_;
};

/// Duplicates the socket's descriptor.
absl::StatusOr<Listener> Again(const Listener& listener) {
  UniqueFd fd(fcntl(listener.socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("serve port ", listener.port));
  return Listener{std::move(fd), listener.port};
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address, int port,
                                                              const Service& service) {
  MT_ASSIGN_OR_RETURN(const Listener listener, Listen(address, port));
  const auto threads = static_cast<size_t>(std::max(1, service.threads));
  Limits limits = service.limits;
  limits.connections = std::max<size_t>(1, limits.connections / threads);
  std::vector<std::unique_ptr<Server>> servers;
  try {
    while (servers.size() < threads) {
      MT_ASSIGN_OR_RETURN(Listener own, Again(listener));
      servers.push_back(std::make_unique<Server>(std::move(own), service, limits));
    }
    return std::make_unique<Group>(std::move(servers));
  } catch (const std::runtime_error& error) {  // Boost and std::thread: no resources left
    return absl::UnavailableError(absl::StrCat("serve port ", port, ": ", error.what()));
  }
}

}  // namespace mtrun::web
