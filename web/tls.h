// What a server shows to be encrypted: its certificate and the key of that. Values; pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace mtrun::web {

/// PEM texts.
struct TlsKeys {
  std::string certificate;  // its own first, then those that signed it
  std::string private_key;
};

/// SHA-256 of the first certificate as browsers show it: "AB:CD:...", 32 pairs. kInvalidArgument: it is none.
absl::StatusOr<std::string> Fingerprint(const std::string& certificate);

}  // namespace mtrun::web
