#include "web/transport.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace mtrun::web {
namespace {

using NextHandler = Transport::Next;
using Result = Transport::Result;

// Bytes read from the disk at once, for encryption.
constexpr int64_t kChunk = 256 << 10;

Result ResultOf(ssize_t passed, NextHandler otherwise) {
  if (passed > 0) return {NextHandler::kDone, static_cast<size_t>(passed)};
  const bool later = passed < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return {later ? otherwise : NextHandler::kClosed, 0};
}

class Plain : public Transport {
 public:
  explicit Plain(int socket) : socket_(socket) {}

  Result Read(char* into, size_t most) override {
    return ResultOf(recv(socket_, into, most, 0), NextHandler::kReadable);
  }
  Result Write(std::string_view bytes) override {
    return ResultOf(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), NextHandler::kWritable);
  }
  Result SendFile(int file, int64_t offset, int64_t most) override {
    off_t from = offset;
    return ResultOf(sendfile(socket_, file, &from, static_cast<size_t>(most)), NextHandler::kWritable);
  }
  void EndSending() override { shutdown(socket_, SHUT_WR); }

 private:
  const int socket_;
};

class Tls : public Transport {
 public:
  Tls(int socket, TlsContext& context) : socket_(socket), ssl_(SSL_new(&context)) {
    if (ssl_ == nullptr || SSL_set_fd(ssl_, socket) != 1) return;
    SSL_set_accept_state(ssl_);
    usable_ = true;
  }
  ~Tls() override { SSL_free(ssl_); }

  Result Read(char* into, size_t most) override {
    size_t read = 0;
    return Perform([&] { return SSL_read_ex(ssl_, into, most, &read); }, read);
  }

  Result Write(std::string_view bytes) override {
    size_t written = 0;
    return Perform([&] { return SSL_write_ex(ssl_, bytes.data(), bytes.size(), &written); }, written);
  }

  Result SendFile(int file, int64_t offset, int64_t most) override {
    // An unfinished write must be retried with the same bytes.
    if (offset < chunk_at_ || offset >= chunk_at_ + static_cast<int64_t>(chunk_.size())) {
      chunk_.resize(static_cast<size_t>(std::min(most, kChunk)));
      const ssize_t read = pread(file, chunk_.data(), chunk_.size(), offset);
      chunk_.resize(static_cast<size_t>(std::max<ssize_t>(read, 0)));
      chunk_at_ = offset;
    }
    if (chunk_.empty()) return {NextHandler::kClosed, 0};
    const std::string_view rest = std::string_view(chunk_).substr(static_cast<size_t>(offset - chunk_at_));
    const Result result = Write(rest.substr(0, static_cast<size_t>(most)));
    if (result.next == NextHandler::kDone && result.bytes == rest.size()) std::string().swap(chunk_);
    return result;
  }

  void EndSending() override {
    if (usable_ && SSL_in_init(ssl_) == 0) SSL_shutdown(ssl_);
    shutdown(socket_, SHUT_WR);
  }

 private:
  template <typename Operation>
  Result Perform(const Operation& operation, const size_t& bytes) {
    if (!usable_) return {NextHandler::kClosed, 0};
    ERR_clear_error();
    const int returned = operation();
    if (returned == 1) return {NextHandler::kDone, bytes};
    const int error = SSL_get_error(ssl_, returned);
    if (error == SSL_ERROR_WANT_READ) return {NextHandler::kReadable, 0};
    if (error == SSL_ERROR_WANT_WRITE) return {NextHandler::kWritable, 0};
    usable_ = false;  // no more data may be sent after a fatal error
    return {NextHandler::kClosed, 0};
  }

  const int socket_;
  SSL* const ssl_;
  bool usable_ = false;
  std::string chunk_;  // part of the file that is being sent
  int64_t chunk_at_ = 0;
};

}  // namespace

std::unique_ptr<Transport> PlainTransport(int socket) { return std::make_unique<Plain>(socket); }
std::unique_ptr<Transport> TlsTransport(int socket, TlsContext& context) {
  return std::make_unique<Tls>(socket, context);
}

}  // namespace mtrun::web
