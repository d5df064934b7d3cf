#include "web/connection.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace mtrun::web {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Next = Transport::Next;

// If a connection is closed while its client still sends, the client gets a reset, which can overtake the
// answer. Input is therefore read for this long.
constexpr auto kDrainPatience = std::chrono::seconds(1);
// Maximum bytes sent and received per turn, so that other connections on this thread get theirs.
constexpr int64_t kTurn = 1 << 20;
constexpr size_t kReceivedTurn = 256 << 10;

template <typename Text>
std::string ToString(const Text& text) {
  return std::string(text.data(), text.size());
}

/// Returns false if the target is not a path.
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
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  return error == http::error::body_limit ? 413 : 400;
}

}  // namespace

Connection::Connection(asio::io_context& io, UniqueFd socket, int64_t id, const Limits& limits,
                       TlsContext* tls, Owner& owner)
    : id_(id),
      limits_(limits),
      owner_(owner),
      socket_(io),
      timer_(io),
      received_(2 * limits.header_bytes) {  // large bodies pass through in pieces
  // Asio only needs the kind of socket here, not the exact protocol.
  Error error;
  socket_.assign(asio::ip::tcp::v6(), socket.get(), error);
  if (error) return;
  const int fd = socket.Release();
  transport_ = tls != nullptr ? TlsTransport(fd, *tls) : PlainTransport(fd);
}

void Connection::Start() {
  if (!socket_.is_open()) return owner_.OnClosed(id_);
  BeginRequest();
  Wait(Waits::kRequest, limits_.request_patience);
  Read();
}

void Connection::BeginRequest() {
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(limits_.header_bytes));
  parser_->body_limit(limits_.body_bytes);
  parser_->eager(true);
}

/// Reads available bytes until a request is complete, one turn at most. The bytes between the chunks of a
/// body count towards no size limit, only towards the timeout.
void Connection::Read() {
  if (!socket_.is_open()) return;
  size_t turn = 0;
  while (Parse()) {
    if (turn >= kReceivedTurn) return ReadInAnotherTurn();
    const size_t received = Receive();
    if (received == 0) return;
    turn += received;
  }
}

/// Does not wait for the socket, because the bytes may already be in the buffer.
void Connection::ReadInAnotherTurn() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Read(); });
}

/// Returns the number of bytes received, 0 if none are available now.
size_t Connection::Receive() {
  const size_t room = std::min(limits_.header_bytes, received_.max_size() - received_.size());
  const auto into = received_.prepare(room);
  const Transport::Result result = transport_->Read(static_cast<char*>(into.data()), room);
  if (result.next == Next::kClosed) {
    parser_->got_some() ? Refuse(400) : Close();  // the client may still read the answer
    return 0;
  }
  if (result.next != Next::kDone) {
    AwaitSocket(result.next, &Connection::Read);
    return 0;
  }
  received_.commit(result.bytes);
  if (std::exchange(idle_, false)) Wait(Waits::kRequest, limits_.request_patience);
  return result.bytes;
}

/// Parses the received bytes. Returns true if more are needed.
bool Connection::Parse() {
  while (received_.size() > 0) {
    Error error;
    const size_t taken = parser_->put(received_.data(), error);
    received_.consume(taken);
    if (error && error != http::error::need_more) {
      Refuse(StatusOf(error));
      return false;
    }
    if (parser_->is_done()) {
      OnMessage();
      return false;
    }
    if (taken == 0 && received_.size() == received_.max_size()) {
      Refuse(431);
      return false;
    }
    if (error || taken == 0) break;
  }
  return true;
}

void Connection::Refuse(int status) {
  exchange_ = {};
  began_ = MonotonicNow();
  with_body_ = true;
  Send(StatusResponse(status), /*keep=*/false);
}

void Connection::OnMessage() {
  Request request;
  keeps_ = limits_.idle_patience > Duration::zero() && parser_->get().keep_alive();
  exchange_ = {.method = ToString(parser_->get().method_string()),
               .target = ToString(parser_->get().target())};
  began_ = MonotonicNow();
  const bool has_path = ReadRequest(parser_->release(), &request);
  with_body_ = request.method != "HEAD";
  if (!has_path) return Send(StatusResponse(400), /*keep=*/false);
  Wait(Waits::kHandler, limits_.handler_patience);
  owner_.OnRequest(id_, std::move(request));
}

void Connection::Answer(const Response& response) {
  if (waits_ == Waits::kHandler && socket_.is_open()) return Send(response, keeps_ && !finishing_);
  if (response.live) response.live->Detach();
}

void Connection::Send(Response response, bool keep) {
  live_ = std::move(response.live);
  const bool can_be_sent = CanBeSent(response);
  if (!can_be_sent) response = StatusResponse(500);
  if (!can_be_sent || !with_body_) Forget();
  response.live = live_;
  keeps_ = keep && !live_;
  exchange_.status = response.status;
  answer_ = ToBytes(response, with_body_, keeps_);
  answered_ = 0;
  file_ = with_body_ && response.status != 304 ? std::move(response.file) : std::nullopt;
  credit_ = 0;
  Wait(Waits::kReader, limits_.send_patience);
  if (live_) {
    live_->Attach(owner_.WakerOf(id_));
    AwaitSocket(Next::kReadable, &Connection::AwaitEnd);
  }
  SendSome();
}

/// Sends as much as the client accepts, one turn at most.
void Connection::SendSome() {
  if (!socket_.is_open()) return;
  int64_t turn = 0;
  while (HasMore()) {
    if (turn >= kTurn) return AwaitSocket(Next::kWritable, &Connection::SendSome);
    const Transport::Result result = SendPiece();
    if (result.next == Next::kClosed) return Close();
    if (result.next != Next::kDone) return AwaitSocket(result.next, &Connection::SendSome);
    turn += static_cast<int64_t>(result.bytes);
    exchange_.bytes += static_cast<int64_t>(result.bytes);
    credit_ += static_cast<int64_t>(result.bytes);
    if (credit_ < limits_.send_least) continue;
    credit_ = 0;
    Wait(Waits::kReader, limits_.send_patience);
  }
  if (!live_) return Sent();
  deadline_ = TimePoint::max();  // no timeout: the next text is ours to produce
}

bool Connection::HasMore() {
  return answered_ < answer_.size() || (file_ && file_->length > 0) || (live_ && TakeLive());
}

bool Connection::TakeLive() {
  LiveBody::Next next = live_->Take();
  if (next.ended) Forget();
  if (!next.text) return false;
  answer_ = *std::move(next.text);
  answered_ = 0;
  credit_ = 0;
  Wait(Waits::kReader, limits_.send_patience);
  return true;
}

void Connection::OnWake() {
  if (live_ && answered_ == answer_.size()) SendSome();  // otherwise a piece is already being sent
}

/// Detects a client that leaves during a live body by reading: sending may not happen for a long time.
void Connection::AwaitEnd() {
  if (!live_ || !socket_.is_open()) return;
  std::array<char, 512> rest;  // discarded
  const Transport::Result result = transport_->Read(rest.data(), rest.size());
  if (result.next == Next::kClosed) return Close();
  AwaitSocket(result.next == Next::kDone ? Next::kReadable : result.next, &Connection::AwaitEnd);
}

/// Detaches the live body, so that its producer stops setting text.
void Connection::Forget() {
  if (const auto live = std::exchange(live_, nullptr)) live->Detach();
}

Transport::Result Connection::SendPiece() {
  if (answered_ < answer_.size()) {
    const Transport::Result result = transport_->Write(std::string_view(answer_).substr(answered_));
    answered_ += result.bytes;
    return result;
  }
  const Transport::Result result =
      transport_->SendFile(file_->fd->get(), file_->offset, std::min(file_->length, kTurn));
  file_->offset += static_cast<int64_t>(result.bytes);
  file_->length -= static_cast<int64_t>(result.bytes);
  return result;
}

void Connection::Sent() {
  file_.reset();
  Tell(/*complete=*/true);
  if (!keeps_ || finishing_) {
    transport_->EndSending();
    ending_ = true;
    Wait(Waits::kReader, kDrainPatience);
    return Drain();
  }
  BeginRequest();
  idle_ = received_.size() == 0;
  Wait(Waits::kRequest, idle_ ? limits_.idle_patience : limits_.request_patience);
  ReadInAnotherTurn();  // one pipelined request per turn, so that other connections get theirs
}

void Connection::Tell(bool complete) {
  exchange_.complete = complete;
  exchange_.seconds = ToSeconds(MonotonicNow() - began_);
  owner_.OnExchange(id_, exchange_);
}

/// Reads one buffer per turn: a client that never pauses delays neither others nor its own deadline.
void Connection::Drain() {
  if (!socket_.is_open()) return;
  std::array<char, 16 << 10> rest;  // discarded
  const ssize_t read = recv(socket_.native_handle(), rest.data(), rest.size(), MSG_DONTWAIT);
  const bool open = read > 0 || (read < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
  return open ? AwaitSocket(Next::kReadable, &Connection::Drain) : Close();
}

void Connection::AwaitSocket(Next next, void (Connection::*then)()) {
  const auto what = next == Next::kReadable ? asio::socket_base::wait_read : asio::socket_base::wait_write;
  socket_.async_wait(what, [self = shared_from_this(), then](Error error) {
    if (error) return self->Close();
    (self.get()->*then)();
  });
}

void Connection::Wait(Waits waits, Duration patience) {
  waits_ = waits;
  owner_.OnWaits(id_, waits);
  deadline_ = MonotonicNow() + patience;
  if (!armed_ || deadline_ < *armed_) Arm();
}

/// A later deadline is only noticed when the timer fires, because large answers extend it often.
void Connection::Arm() {
  armed_ = deadline_;
  timer_.expires_at(std::chrono::time_point_cast<asio::steady_timer::clock_type::duration>(deadline_));
  timer_.async_wait([self = shared_from_this(), armed = deadline_](Error error) {
    if (error || self->armed_ != armed) return;  // the timer has been set again
    self->armed_.reset();
    if (!self->socket_.is_open()) return;
    return MonotonicNow() < self->deadline_ ? self->Arm() : self->OnTimeout();
  });
}

void Connection::OnTimeout() {
  if (waits_ == Waits::kHandler) return Send(StatusResponse(503), /*keep=*/false);
  Close();
}

void Connection::Finish() {
  finishing_ = true;
  if (waits_ == Waits::kRequest || live_) Close();
}

void Connection::Close() {
  if (!socket_.is_open()) return;
  if (waits_ == Waits::kReader && !ending_) Tell(/*complete=*/false);
  Error ignored;
  transport_.reset();
  socket_.close(ignored);
  Forget();
  timer_.cancel();
  owner_.OnClosed(id_);
}

}  // namespace mtrun::web
