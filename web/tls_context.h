// What the connections of a TLS server share: its certificate and key. TLS 1.2 and above.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct ssl_ctx_st;

namespace mtrun::web {

/// Constant after construction; thread-safe.
class TlsContext {
 public:
  /// `certificate` (with those that lead to a root behind it) and `private_key` are PEM texts.
  /// kInvalidArgument: they are none, or do not belong together.
  static absl::StatusOr<std::shared_ptr<const TlsContext>> Make(const std::string& certificate,
                                                                const std::string& private_key);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;

  ssl_ctx_st* get() const { return context_; }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* const context_;
};

/// SHA-256 of the first certificate as browsers show it: "AB:CD:...", 32 pairs. kInvalidArgument: it is none.
absl::StatusOr<std::string> Fingerprint(const std::string& certificate);

}  // namespace mtrun::web
