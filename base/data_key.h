// Secrets of data servers, derived from the cluster's token. They permit reading the served data sets and
// nothing else. Pure except for FindDataKey.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/worker_env.h"

namespace mtrun {

/// Environment variable in which mtrun passes the key to its workers, which do not get the token.
inline constexpr char kDataKeyVariable[] = "MTRUN_DATA_KEY";

/// Returns 64 hexadecimal digits from which the token cannot be recovered. The TLS identity of a data server
/// is derived from this key (DeriveIdentity).
std::string DataKeyOf(std::string_view token);
/// Returns the credential that a client sends in "Authorization: Bearer ...". A plain-text server (loopback
/// only) has a different one, so a credential read from that traffic is useless elsewhere.
std::string BearerOf(std::string_view data_key, bool encrypted);

/// Returns the bearer credential that opens a data server's /metrics, but no data.
std::string MetricsBearerOf(std::string_view data_key, bool encrypted);

/// Returns the key from the variable or from the cluster's token (LoadToken). kNotFound if neither exists.
absl::StatusOr<std::string> FindDataKey(const EnvironmentMap& environment);

}  // namespace mtrun
