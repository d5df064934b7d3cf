// Secrets of data servers, derived from the cluster's token: whoever has them may read the data sets that are
// served, and do nothing else. Pure but for FindDataKey.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/worker_env.h"

namespace mtrun {

/// mtrun gives it to its workers, which are not given the token.
inline constexpr char kDataKeyVariable[] = "MTRUN_DATA_KEY";

/// 64 hexadecimal digits; the token cannot be had from it. The TLS identity of a data server is derived from
/// it (DeriveIdentity).
std::string DataKeyOf(std::string_view token);
/// What a client shows in "Authorization: Bearer ...". Of a server without TLS, on loopback, another one:
/// what may be read on the way there opens nothing elsewhere.
std::string BearerOf(std::string_view data_key, bool encrypted);

/// What shows "Authorization: Bearer ..." to read a data server's /metrics, and no data.
std::string MetricsBearerOf(std::string_view data_key, bool encrypted);

/// The variable, or what the cluster's token gives (LoadToken). kNotFound for none.
absl::StatusOr<std::string> FindDataKey(const EnvironmentMap& environment);

}  // namespace mtrun
