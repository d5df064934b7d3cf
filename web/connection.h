// One connection: a request, its answer, and the next one where connections are kept. Includes Boost: for
// http_server.cc alone.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/posix.h"
#include "web/connection_slots.h"
#include "web/http_server.h"
#include "web/message.h"
#include "web/transport.h"

namespace mtrun::web {

/// Lives on the server's thread, and as long as it waits for something.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// Outlives the connection but for its destructor.
  class Owner {
   public:
    virtual void OnWaits(int64_t id, Waits waits) = 0;
    /// The request is whole; Answer ends it.
    virtual void OnRequest(int64_t id, Request request) = 0;
    /// An answer has been sent, or broke off.
    virtual void OnExchange(int64_t id, const Exchange& exchange) = 0;
    virtual void OnClosed(int64_t id) = 0;
    /// Leads to OnWake of the connection, from any thread, also when both are gone.
    virtual std::function<void()> WakerOf(int64_t id) = 0;

   protected:
    ~Owner() = default;
  };

  /// `tls`: null for none.
  Connection(boost::asio::io_context& io, UniqueFd socket, int64_t id, const Limits& limits,
             const TlsContext* tls, Owner& owner);
  ~Connection() { Forget(); }
  void Start();
  /// Only the first answer to a request counts.
  void Answer(const Response& response);
  /// Its live body has something to take.
  void OnWake();
  /// Takes no further request; closes at once where none is under way, or its answer has no end of its own.
  void Finish();
  void Close();

 private:
  using Error = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void BeginRequest();
  void Read();
  void ReadInAnotherTurn();
  size_t Receive();
  bool Parse();
  void OnMessage();
  void Refuse(int status);
  void Send(Response response, bool keep);
  void SendSome();
  bool HasMore();
  bool TakeLive();
  Transport::Result SendPiece();
  void Sent();
  void Tell(bool complete);
  void AwaitEnd();
  void Forget();
  void Drain();
  void AwaitSocket(Transport::Next next, void (Connection::*then)());
  void Wait(Waits waits, Duration patience);
  void Arm();
  void OnTimeout();

  const int64_t id_;
  const Limits& limits_;
  Owner& owner_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<Transport> transport_;
  boost::beast::flat_buffer received_;
  std::optional<Parser> parser_;
  Waits waits_ = Waits::kRequest;
  TimePoint deadline_{};
  std::optional<TimePoint> armed_;  // what the timer is set to
  bool idle_ = false;               // nothing of the next request has come
  bool finishing_ = false;
  bool ending_ = false;  // all has been sent, nothing that comes is read

  // Of the exchange under way.
  Exchange exchange_;
  TimePoint began_{};
  bool with_body_ = true;  // HEAD: without
  bool keeps_ = false;     // the client would like another request
  std::string answer_;     // head, and the body unless it is a file's; then what is taken of a live one
  size_t answered_ = 0;    // bytes of it that are sent
  std::optional<FileBody> file_;  // what is left of it
  std::shared_ptr<LiveBody> live_;
  int64_t credit_ = 0;  // bytes since the patience began again
};

}  // namespace mtrun::web
