#include "tests/support/tls_client.h"

#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>

namespace mtrun::support {

TlsClient::TlsClient(int port, int version, const char* ciphers)
    : tcp_(port), context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free), ssl_(nullptr, SSL_free) {
  const timeval patience = {.tv_sec = static_cast<time_t>(kPatience.count()), .tv_usec = 0};
  setsockopt(tcp_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  SSL_CTX_set_security_level(context_.get(), 0);
  SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context_.get(), version);
  if (ciphers != nullptr) SSL_CTX_set_cipher_list(context_.get(), ciphers);
  ssl_.reset(SSL_new(context_.get()));
  SSL_set_fd(ssl_.get(), tcp_.fd());
  encrypted_ = SSL_connect(ssl_.get()) == 1;
}

TlsClient::TlsClient(TlsClient&&) noexcept = default;
TlsClient& TlsClient::operator=(TlsClient&&) noexcept = default;
TlsClient::~TlsClient() = default;

bool TlsClient::Send(std::string_view bytes) const {
  return encrypted_ && SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) ==
                           static_cast<int>(bytes.size());
}

std::string TlsClient::ReadAll() const {
  std::string heard;
  std::array<char, 16 << 10> bytes;
  int size = 0;
  while (encrypted_ && (size = SSL_read(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()))) > 0)
    heard.append(bytes.data(), static_cast<size_t>(size));
  return heard;
}

std::string AskEncrypted(int port, std::string_view request, int version, const char* ciphers) {
  const TlsClient client(port, version, ciphers);
  client.Send(request);
  return client.ReadAll();
}

}  // namespace mtrun::support
