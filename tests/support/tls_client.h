// A client of a port of this machine over TLS that trusts whoever is there, says what it likes and reads
// until the other end closes. For tests that link mt_tls_client.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tests/support/tcp_client.h"

struct ssl_st;
struct ssl_ctx_st;

namespace mtrun::support {

/// Not thread-safe.
class TlsClient {
 public:
  /// Connects to 127.0.0.1:`port`; encrypted() says whether both agreed on a TLS of at most `version` (0:
  /// any).
  explicit TlsClient(int port, int version = 0);
  TlsClient(TlsClient&&) noexcept;
  TlsClient& operator=(TlsClient&&) noexcept;
  ~TlsClient();

  bool encrypted() const { return encrypted_; }
  /// False when the other end no longer takes it.
  bool Send(std::string_view bytes) const;
  /// All that comes until the other end closes the connection, or says nothing for kPatience.
  std::string ReadAll() const;

 private:
  TcpClient tcp_;
  std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> context_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  bool encrypted_ = false;
};

/// What a new connection answers to `request`, "" where it does not agree on TLS.
std::string AskEncrypted(int port, std::string_view request, int version = 0);

}  // namespace mtrun::support
