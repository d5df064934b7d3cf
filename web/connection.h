// One connection: a request, its answer, and further requests if connections are kept open. Includes Boost,
// so only http_server.cc and tests may include it.
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

/// Runs on the server's thread; stays alive while it waits for an event.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// Receives the connection's events. Outlives the connection except for its destructor.
  class Owner {
   public:
    virtual void OnWaits(int64_t id, Waits waits) = 0;
    /// A complete request has arrived; Answer ends it.
    virtual void OnRequest(int64_t id, Request request) = 0;
    /// An answer was sent, or was cut off.
    virtual void OnExchange(int64_t id, const Exchange& exchange) = 0;
    virtual void OnClosed(int64_t id) = 0;
    /// Returns a function that calls OnWake, from any thread, and is harmless after both are gone.
    virtual std::function<void()> WakerOf(int64_t id) = 0;

   protected:
    ~Owner() = default;
  };

  /// `tls` is null for plain text.
  Connection(boost::asio::io_context& io, UniqueFd socket, int64_t id, const Limits& limits, TlsContext* tls,
             Owner& owner);
  ~Connection() { Forget(); }
  void Start();
  /// Sends an answer; only the first one to a request counts.
  void Answer(const Response& response);
  /// Sends new text of the live body.
  void OnWake();
  /// Accepts no further request. Closes at once if no exchange is in progress, or if its answer is endless.
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
  std::optional<TimePoint> armed_;  // the timer's setting
  bool idle_ = false;               // no byte of the next request has arrived
  bool finishing_ = false;
  bool ending_ = false;  // everything is sent; input is discarded

  // State of the current exchange.
  Exchange exchange_;
  TimePoint began_{};
  bool with_body_ = true;  // false for HEAD
  bool keeps_ = false;     // the client wants to send another request
  std::string answer_;     // head, and the body unless it is a file; later the current text of a live body
  size_t answered_ = 0;    // bytes of answer_ already sent
  std::optional<FileBody> file_;  // the unsent rest
  std::shared_ptr<LiveBody> live_;
  int64_t credit_ = 0;  // bytes since the timeout was restarted
};

}  // namespace mtrun::web
