#include "web/http_server.h"

#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
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

// How long a system without a free descriptor is left alone.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

/// The way of replies from other threads into the loop, shut when the server goes. Thread-safe.
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

/// A thread to which no signal of the process is delivered: those belong to who started it.
std::thread StartWithoutSignals(std::function<void()> run) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

using Tls = asio::ssl::context;

absl::StatusOr<Tls> MakeTls(const TlsKeys& keys) {
  Tls tls(Tls::tls_server);
  tls.set_options(Tls::no_tlsv1 | Tls::no_tlsv1_1 | Tls::single_dh_use);
  boost::system::error_code error;
  tls.use_certificate_chain(asio::buffer(keys.certificate), error);
  if (!error) tls.use_private_key(asio::buffer(keys.private_key), Tls::pem, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("TLS certificate and key: ", error.message()));
  return tls;
}

class Server : public HttpServer, public Connection::Owner {
 public:
  Server(Listener listener, std::vector<Route> routes, const Limits& limits, std::optional<Tls> tls)
      : limits_(limits),
        router_(std::move(routes)),
        port_(listener.port),
        tls_(std::move(tls)),
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

 private:
  void AwaitConnection() {
    incoming_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this](const boost::system::error_code&) { AcceptOne(); });
  }

  /// One at a time, so that those before have their turn to be read.
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
    pause_.async_wait([this](const boost::system::error_code&) { AwaitConnection(); });
  }

  void Admit(Accepted accepted) {
    const int64_t id = next_id_++;
    const ConnectionSlots::Admission admission = slots_.Admit(id, accepted.peer);
    if (admission.evicted) connections_.at(*admission.evicted)->Close();
    if (!admission.admitted) return;
    const auto connection =
        std::make_shared<Connection>(io_, tls_ ? &*tls_ : nullptr, std::move(accepted), id, limits_, *this);
    connections_[id] = connection;
    connection->Start();
  }

  void OnWaits(int64_t id, Waits waits) override { slots_.Change(id, waits); }

  void OnRequest(int64_t id, Request request) override {
    const Router::Found found = router_.Find(request.method, request.path);
    if (found.handler == nullptr) return connections_.at(id)->Answer(found.otherwise);
    (*found.handler)(std::move(request), [this, id, door = door_](Response response) {
      door->Post([this, id, response = std::move(response)] {
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
        const std::shared_ptr<Connection> kept = connection->second;  // over its own end
        kept->OnWake();
      });
    };
  }

  void OnClosed(int64_t id) override {
    slots_.Remove(id);
    connections_.erase(id);
  }

  // Constant after construction.
  const Limits limits_;
  const Router router_;
  const int port_;

  // Loop thread only.
  std::optional<Tls> tls_;
  asio::io_context io_;
  ConnectionSlots slots_;
  std::map<int64_t, std::shared_ptr<Connection>> connections_;
  int64_t next_id_ = 0;
  asio::posix::stream_descriptor incoming_;  // the listening socket
  asio::steady_timer pause_;
  bool paused_ = false;

  const std::shared_ptr<LoopDoor> door_ = std::make_shared<LoopDoor>(io_);
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address, int port,
                                                              std::vector<Route> routes, const Limits& limits,
                                                              const std::optional<TlsKeys>& keys) {
  std::optional<Tls> tls;
  if (keys) {
    MT_ASSIGN_OR_RETURN(tls, MakeTls(*keys));
  }
  MT_ASSIGN_OR_RETURN(Listener listener, Listen(address, port));
  try {
    return std::make_unique<Server>(std::move(listener), std::move(routes), limits, std::move(tls));
  } catch (const std::runtime_error& error) {  // Boost and std::thread: the system has no more of something
    return absl::UnavailableError(absl::StrCat("serve port ", port, ": ", error.what()));
  }
}

}  // namespace mtrun::web
