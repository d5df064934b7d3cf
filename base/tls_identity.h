// Keys and certificates of mutual TLS, derived from the cluster's token: both ends derive the same P-256 keys
// by HKDF (RFC 5869), so nothing but the token is ever stored or sent. Free functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mtrun {

/// Name in every leaf certificate; clients give it as the target name, because endpoints' names and addresses
/// do not matter.
inline constexpr char kTlsName[] = "rendezvous.mtrun.internal";

/// PEM texts.
struct TlsIdentity {
  std::string ca_certificate;  // the only root that either end trusts
  std::string certificate;     // leaf, for server and client alike
  std::string private_key;     // the leaf's
};
/// Two tokens that agree give the same. Whoever sees the certificate can try tokens against it, so the token
/// has to be one that cannot be guessed (CheckToken). kInvalidArgument for an empty one.
absl::StatusOr<TlsIdentity> DeriveIdentity(std::string_view token);

}  // namespace mtrun
