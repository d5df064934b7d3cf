// Secrets of data servers, derived from the cluster's token. A client gets those that permit reading the
// served data sets; the server alone has its private key. Pure except for FindDataKey.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/tls_identity.h"
#include "base/token.h"
#include "base/worker_env.h"

namespace mtrun {

/// Environment variable that gives the key to clients without the token. mtrun does not pass it to workers:
/// they ask the agent.
inline constexpr char kDataKeyVariable[] = "MTRUN_DATA_KEY";

/// The key of a client. Neither the token nor the server's private key can be derived from it.
struct DataKey {
  std::string secret;  // permits reading, 64 hexadecimal digits
  std::string pin;     // PublicKeyPin of the server
  bool operator==(const DataKey&) const = default;
};
/// Errors as for DeriveIdentity.
absl::StatusOr<DataKey> DataKeyOf(std::string_view token);
/// Returns "secret.pin".
std::string ToText(const DataKey& key);
/// Parses such a text. kInvalidArgument says where to get one.
absl::StatusOr<DataKey> ParseDataKey(std::string_view text);

/// Returns DataKey::secret.
std::string ReadingSecretOf(std::string_view token);
/// Returns certificate and private key of the cluster's data servers. Errors as for DeriveIdentity.
absl::StatusOr<TlsIdentity> DataServerIdentity(std::string_view token);

/// Returns the credential that a client sends in "Authorization: Bearer ...". A plain-text server (loopback
/// only) has a different one, so a credential read from that traffic is useless elsewhere.
std::string BearerOf(std::string_view secret, bool encrypted);
/// Returns the bearer credential that opens a data server's /metrics, but no data.
std::string MetricsBearerOf(std::string_view secret, bool encrypted);

/// Returns the key, as text: from the token's file if `source` names one; otherwise from the variable, from
/// the agent at MTRUN_SOCKET, or from the cluster's token (LoadToken). kNotFound if there is none,
/// kInvalidArgument if the variable holds no key, kUnavailable if the agent does not answer within 10 s.
absl::StatusOr<std::string> FindDataKey(const EnvironmentMap& environment, const TokenSource& source = {});

}  // namespace mtrun
