// Certificate and key, shared by the connections of a TLS server. TLS 1.2 and above.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct ssl_ctx_st;

namespace mtrun::web {

/// Constant after construction; thread-safe.
class TlsContext {
 public:
  /// Makes a context from PEM texts; intermediate certificates follow the server's in `certificate`.
  /// kInvalidArgument if they are invalid or do not match.
  static absl::StatusOr<std::shared_ptr<const TlsContext>> Make(const std::string& certificate,
                                                                const std::string& private_key);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;

  ssl_ctx_st* get() const { return context_; }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* const context_;
};

/// Returns the first certificate's SHA-256 as browsers show it: "AB:CD:...", 32 pairs. Or kInvalidArgument.
absl::StatusOr<std::string> Fingerprint(const std::string& certificate);

}  // namespace mtrun::web
