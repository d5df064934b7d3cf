#include "web/connection.h"

#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace mtrun::web {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

// A client that still sends when its connection is closed gets a reset, which may overtake the answer: so
// what it sends is read for this long.
constexpr auto kDrainPatience = std::chrono::seconds(1);

template <typename Text>
std::string ToString(const Text& text) {
  return std::string(text.data(), text.size());
}

/// False when it asks for something else than a path.
bool ReadRequest(http::request<http::string_body>&& message, Request* request) {
  request->method = ToString(message.method_string());
  const std::string target = ToString(message.target());
  for (const auto& field : message) {
    std::string& value = request->headers[absl::AsciiStrToLower(ToString(field.name_string()))];
    absl::StrAppend(&value, value.empty() ? "" : ", ", ToString(field.value()));
  }
  request->body = std::move(message.body());
  return ReadTarget(target, request);
}

int StatusOf(const boost::system::error_code& error) {
  if (error == http::error::header_limit) return 431;
  return error == http::error::body_limit ? 413 : 400;
}

}  // namespace

Connection::Connection(asio::io_context& io, UniqueFd socket, int64_t id, const Limits& limits, Owner& owner)
    : id_(id),
      limits_(limits),
      owner_(owner),
      socket_(io),
      timer_(io),
      received_(2 * limits.header_bytes) {  // a body passes through in pieces
  // Of the protocol only the kind of socket matters here.
  Error error;
  socket_.assign(asio::ip::tcp::v6(), socket.get(), error);
  if (!error) socket.Release();
  parser_.header_limit(static_cast<uint32_t>(limits.header_bytes));
  parser_.body_limit(limits.body_bytes);
}

void Connection::Start() {
  if (!socket_.is_open()) return owner_.OnClosed(id_);
  Wait(Waits::kRequest, limits_.request_patience);
  http::async_read(socket_, received_, parser_,
                   [self = shared_from_this()](Error error, size_t) { self->OnRead(error); });
}

void Connection::OnRead(Error error) {
  if (!socket_.is_open()) return;
  // Beast's own errors are about what the client sent, all others about the connection.
  static const boost::system::error_category& malformed =
      http::make_error_code(http::error::bad_method).category();
  if (error && (error.category() != malformed || error == http::error::end_of_stream)) return Close();
  if (error) return Send(StatusResponse(StatusOf(error)));
  Request request;
  const bool has_path = ReadRequest(parser_.release(), &request);
  with_body_ = request.method != "HEAD";
  if (!has_path) return Send(StatusResponse(400));
  Wait(Waits::kHandler, limits_.handler_patience);
  owner_.OnRequest(id_, std::move(request));
}

void Connection::Answer(const Response& response) {
  if (waits_ == Waits::kHandler) Send(response);
}

void Connection::Send(const Response& response) {
  answer_ = ToBytes(response, with_body_);
  Wait(Waits::kReader, limits_.send_patience);
  asio::async_write(socket_, asio::buffer(answer_), [self = shared_from_this()](Error error, size_t) {
    if (error || !self->socket_.is_open()) return self->Close();
    self->socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
    self->Wait(Waits::kReader, kDrainPatience);
    self->Drain();
  });
}

void Connection::Drain() {
  socket_.async_read_some(asio::buffer(rest_), [self = shared_from_this()](Error error, size_t) {
    if (error) return self->Close();
    self->Drain();
  });
}

void Connection::Wait(Waits waits, Duration patience) {
  waits_ = waits;
  owner_.OnWaits(id_, waits);
  timer_.expires_after(patience);
  timer_.async_wait([self = shared_from_this()](Error error) {
    // One that ran out just before it was set again says so too.
    if (!error && self->timer_.expiry() <= asio::steady_timer::clock_type::now()) self->OnTimeout();
  });
}

void Connection::OnTimeout() {
  if (!socket_.is_open()) return;
  if (waits_ == Waits::kHandler) return Send(StatusResponse(503));
  Close();
}

void Connection::Close() {
  if (!socket_.is_open()) return;
  Error ignored;
  socket_.close(ignored);
  timer_.cancel();
  owner_.OnClosed(id_);
}

}  // namespace mtrun::web
