#include "web/connection.h"

#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

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

Connection::Connection(asio::io_context& io, asio::ssl::context* tls, Accepted accepted, int64_t id,
                       const Limits& limits, Owner& owner)
    : id_(id),
      limits_(limits),
      owner_(owner),
      peer_(std::move(accepted.peer)),
      stream_(io, tls),
      timer_(io),
      received_(2 * limits.header_bytes) {  // a body passes through in pieces
  // Of the protocol only the kind of socket matters here.
  Error error;
  stream_.socket().assign(asio::ip::tcp::v6(), accepted.socket.get(), error);
  if (!error) accepted.socket.Release();
  parser_.header_limit(static_cast<uint32_t>(limits.header_bytes));
  parser_.body_limit(limits.body_bytes);
}

void Connection::Start() {
  if (!stream_.socket().is_open()) return owner_.OnClosed(id_);
  Wait(Waits::kRequest, limits_.request_patience);
  if (!stream_.encrypted()) return Read();
  stream_.Handshake([self = shared_from_this()](Error error) {
    if (error) return self->Close();
    self->Read();
  });
}

void Connection::Read() {
  http::async_read(stream_, received_, parser_,
                   [self = shared_from_this()](Error error, size_t) { self->OnRead(error); });
}

void Connection::OnRead(Error error) {
  if (!stream_.socket().is_open()) return;
  // Beast's own errors are about what the client sent, all others about the connection.
  static const boost::system::error_category& malformed =
      http::make_error_code(http::error::bad_method).category();
  if (error && (error.category() != malformed || error == http::error::end_of_stream)) return Close();
  if (error) return Send(StatusResponse(StatusOf(error)));
  Request request{.peer = peer_};
  const bool has_path = ReadRequest(parser_.release(), &request);
  with_body_ = request.method != "HEAD";
  if (!has_path) return Send(StatusResponse(400));
  Wait(Waits::kHandler, limits_.handler_patience);
  owner_.OnRequest(id_, std::move(request));
}

void Connection::Answer(const Response& response) {
  if (waits_ == Waits::kHandler) return Send(response);
  if (response.live) response.live->Detach();
}

void Connection::Send(const Response& response) {
  answer_ = ToBytes(response, with_body_);
  live_ = response.live;
  if (!with_body_) Forget();
  if (live_) {
    live_->Attach(owner_.WakerOf(id_));
    AwaitEnd();
  }
  Wait(Waits::kReader, limits_.send_patience);
  Write();
}

void Connection::Write() {
  writing_ = true;
  asio::async_write(stream_, asio::buffer(answer_), [self = shared_from_this()](Error error, size_t) {
    self->writing_ = false;
    if (error || !self->stream_.socket().is_open()) return self->Close();
    if (!self->live_) return self->End();
    self->timer_.cancel();
    self->OnWake();
  });
}

void Connection::OnWake() {
  if (writing_ || !live_ || !stream_.socket().is_open()) return;
  LiveBody::Next next = live_->Take();
  if (next.ended) return End();
  if (!next.text) return;
  answer_ = *std::move(next.text);
  Wait(Waits::kReader, limits_.send_patience);
  Write();
}

/// Of a live body nothing may be sent for long: that its client has gone is read.
void Connection::AwaitEnd() {
  stream_.async_read_some(asio::buffer(rest_), [self = shared_from_this()](Error error, size_t) {
    if (error) return self->Close();
    if (self->live_) self->AwaitEnd();
  });
}

void Connection::End() {
  Forget();
  Wait(Waits::kReader, kDrainPatience);
  stream_.Shutdown([self = shared_from_this()](Error) {
    if (self->stream_.socket().is_open()) self->Drain();
  });
}

/// Nobody sets a live body any more for nobody.
void Connection::Forget() {
  if (const auto live = std::exchange(live_, nullptr)) live->Detach();
}

void Connection::Drain() {
  stream_.socket().async_read_some(asio::buffer(rest_), [self = shared_from_this()](Error error, size_t) {
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
  if (!stream_.socket().is_open()) return;
  if (waits_ == Waits::kHandler) return Send(StatusResponse(503));
  Close();
}

void Connection::Close() {
  if (!stream_.socket().is_open()) return;
  Error ignored;
  stream_.socket().close(ignored);
  Forget();
  timer_.cancel();
  owner_.OnClosed(id_);
}

}  // namespace mtrun::web
