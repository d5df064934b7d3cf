// Keys and certificates of mutual TLS, derived from the cluster's token. Both ends derive the same P-256 keys
// by HKDF (RFC 5869), so only the token is ever stored or sent. Free functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mtrun {

/// The name in every leaf certificate. Clients use it as the target name, because the endpoints' own names
/// and addresses do not matter.
inline constexpr char kTlsName[] = "rendezvous.mtrun.internal";

/// Certificates and key as PEM texts.
struct TlsIdentity {
  std::string ca_certificate;  // the only root that either end trusts
  std::string certificate;     // leaf, for server and client alike
  std::string private_key;     // of the leaf
};
/// Derives the identity; equal tokens give equal identities. Anyone with the certificate can test guesses of
/// the token, so it must be unguessable (CheckToken). kInvalidArgument if it is empty.
absl::StatusOr<TlsIdentity> DeriveIdentity(std::string_view token);

/// Returns the SHA-256 of the leaf's public key (its SubjectPublicKeyInfo), 64 hexadecimal digits. Clients
/// that know it accept only that server; it need not be kept secret.
absl::StatusOr<std::string> PublicKeyPin(const TlsIdentity& identity);

}  // namespace mtrun
