// A client that connects over TLS to a port of this machine, trusts any server, sends anything and reads
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
  /// Connects to 127.0.0.1:`port`; encrypted(): both ends agreed on TLS of at most `version` (0: any), with
  /// one of `ciphers` (of TLS 1.2, in OpenSSL's notation; nullptr: any).
  explicit TlsClient(int port, int version = 0, const char* ciphers = nullptr);
  TlsClient(TlsClient&&) noexcept;
  TlsClient& operator=(TlsClient&&) noexcept;
  ~TlsClient();

  bool encrypted() const { return encrypted_; }
  /// Returns false if the other end no longer accepts data.
  bool Send(std::string_view bytes) const;
  /// Reads until the other end closes the connection or is silent for kPatience.
  std::string ReadAll() const;

 private:
  TcpClient tcp_;
  std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> context_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  bool encrypted_ = false;
};

/// Returns the answer of a new connection to `request`, or "" if it does not agree on TLS.
std::string AskEncrypted(int port, std::string_view request, int version = 0, const char* ciphers = nullptr);

}  // namespace mtrun::support
