#include "web/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>

#include "absl/strings/str_format.h"
#include "base/openssl_owned.h"

namespace mtrun::web {
namespace {

absl::Status SslError(const char* what) { return absl::InvalidArgumentError(SslReason(what)); }

Owned<BIO, BIO_free_all> TextOf(const std::string& pem) {
  return Owned<BIO, BIO_free_all>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

/// The first certificate is the server's, the others form its chain to a root.
absl::Status UseCertificates(SSL_CTX* context, const std::string& pem) {
  const auto text = TextOf(pem);
  const Owned<X509, X509_free> own(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) return SslError("certificate");
  while (X509* next = PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)) {
    if (SSL_CTX_add0_chain_cert(context, next) == 1) continue;
    X509_free(next);
    return SslError("certificate chain");
  }
  ERR_clear_error();  // the end of the text
  return absl::OkStatus();
}

absl::Status UseKey(SSL_CTX* context, const std::string& pem) {
  const auto text = TextOf(pem);
  const Owned<EVP_PKEY, EVP_PKEY_free> key(PEM_read_bio_PrivateKey(text.get(), nullptr, nullptr, nullptr));
  if (key == nullptr || SSL_CTX_use_PrivateKey(context, key.get()) != 1) return SslError("private key");
  if (SSL_CTX_check_private_key(context) != 1)
    return SslError("the private key does not match the certificate");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<TlsContext>> MakeTlsContext(const std::string& certificate,
                                                           const std::string& private_key) {
  std::shared_ptr<TlsContext> made(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX* const context = made.get();
  if (context == nullptr) return SslError("TLS");
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // OpenSSL's list for TLS 1.2 also has CBC with SHA-1. RFC 9325 (4.2) recommends these; TLS 1.3 has no
  // others.
  if (SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1) return SslError("TLS ciphers");
  // A client may close without a TLS close_notify: the answer's length precedes its bytes.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);  // session tickets need no memory here
  if (absl::Status used = UseCertificates(context, certificate); !used.ok()) return used;
  if (absl::Status used = UseKey(context, private_key); !used.ok()) return used;
  return made;
}

absl::StatusOr<std::string> Fingerprint(const std::string& certificate) {
  const auto text = TextOf(certificate);
  const Owned<X509, X509_free> first(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (first == nullptr || X509_digest(first.get(), EVP_sha256(), digest.data(), &size) != 1)
    return SslError("certificate");
  std::string pairs;
  for (unsigned i = 0; i < size; ++i) absl::StrAppendFormat(&pairs, "%s%02X", i == 0 ? "" : ":", digest[i]);
  return pairs;
}

}  // namespace mtrun::web
