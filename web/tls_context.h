// Certificate and key, shared by the connections of a TLS server. TLS 1.2 and above.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct ssl_ctx_st;

namespace mtrun::web {

/// OpenSSL's own type. Not changed after MakeTlsContext; thread-safe.
using TlsContext = ssl_ctx_st;

/// Makes a context from PEM texts; intermediate certificates follow the server's in `certificate`.
/// kInvalidArgument if they are invalid or do not match.
absl::StatusOr<std::shared_ptr<TlsContext>> MakeTlsContext(const std::string& certificate,
                                                           const std::string& private_key);

/// Returns the first certificate's SHA-256 as browsers show it: "AB:CD:...", 32 pairs. Or kInvalidArgument.
absl::StatusOr<std::string> Fingerprint(const std::string& certificate);

}  // namespace mtrun::web
