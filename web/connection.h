// One connection: one request, one answer. Includes Boost: for http_server.cc alone.
#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <string>

#include "web/connection_slots.h"
#include "web/http_server.h"
#include "web/listener.h"
#include "web/message.h"
#include "web/stream.h"

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
    virtual void OnClosed(int64_t id) = 0;
    /// Leads to OnWake of the connection, from any thread, also when both are gone.
    virtual std::function<void()> WakerOf(int64_t id) = 0;

   protected:
    ~Owner() = default;
  };

  /// `tls`: null for plain text. `peer` goes into the request.
  Connection(boost::asio::io_context& io, boost::asio::ssl::context* tls, Accepted accepted, int64_t id,
             const Limits& limits, Owner& owner);
  ~Connection() { Forget(); }
  void Start();
  /// Only the first answer counts.
  void Answer(const Response& response);
  void Close();
  /// Its live body has something to take.
  void OnWake();

 private:
  using Error = boost::system::error_code;

  void Read();
  void OnRead(Error error);
  void Send(const Response& response);
  void Write();
  void End();
  void Forget();
  void AwaitEnd();
  void Drain();
  void Wait(Waits waits, Duration patience);
  void OnTimeout();

  const int64_t id_;
  const Limits& limits_;
  Owner& owner_;
  const std::string peer_;
  Stream stream_;
  boost::asio::steady_timer timer_;
  boost::beast::flat_buffer received_;
  boost::beast::http::request_parser<boost::beast::http::string_body> parser_;
  Waits waits_ = Waits::kRequest;
  bool with_body_ = true;  // HEAD: without
  std::string answer_;
  std::shared_ptr<LiveBody> live_;  // while its text is sent
  bool writing_ = false;
  std::array<char, 512> rest_;  // what comes after the request; nobody reads it
};

}  // namespace mtrun::web
