// The secret that agents and service of one cluster share, and what is derived from it: the keys and
// certificates of mutual TLS (design.md, "Who may join"). Both ends derive the same P-256 keys by HKDF (RFC
// 5869), so nothing but the token is ever stored or sent. Free functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_env.h"

namespace mtrun::rendezvous {

inline constexpr size_t kMinTokenCharacters = 32;  // 128 bits in hexadecimal

/// Name in every leaf certificate; clients give it as the target name, because endpoints' names and addresses
/// do not matter.
inline constexpr char kTlsName[] = "rendezvous.mtrun.internal";

/// `MTRUN_TOKEN`, or else the file `path` ("": ~/.mtrun/token, made with a fresh 256-bit token at first use;
/// a given path must exist). Surrounding white space does not count. kInvalidArgument for a short token,
/// kPermissionDenied for a file that others may read: both say how to fix it.
absl::StatusOr<std::string> LoadToken(const std::string& path = "",
                                      const EnvironmentMap& environment = CurrentEnvironment());

/// Two tokens that agree in this give the same keys; kInvalidArgument says why a token is no good.
absl::Status CheckToken(std::string_view token);

/// PEM texts for gRPC.
struct TlsIdentity {
  std::string ca_certificate;  // the only root that either end trusts
  std::string certificate;     // leaf, for server and client alike
  std::string private_key;     // the leaf's
};
absl::StatusOr<TlsIdentity> DeriveIdentity(std::string_view token);

}  // namespace mtrun::rendezvous
