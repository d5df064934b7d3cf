#include "base/data_key.h"

#include "absl/strings/escaping.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "base/token.h"

namespace mtrun {

std::string DataKeyOf(std::string_view token) {
  return absl::BytesToHexString(HmacSha256(token, "mtrun: reading data sets"));
}

std::string BearerOf(std::string_view data_key, bool encrypted) {
  return absl::BytesToHexString(HmacSha256(
      data_key, encrypted ? "mtrun data server: bearer" : "mtrun data server: bearer in the open"));
}

std::string MetricsBearerOf(std::string_view data_key, bool encrypted) {
  return absl::BytesToHexString(HmacSha256(BearerOf(data_key, encrypted), "metrics"));
}

absl::StatusOr<std::string> FindDataKey(const EnvironmentMap& environment) {
  const auto given = environment.find(kDataKeyVariable);
  if (given != environment.end() && !given->second.empty()) return given->second;
  MT_ASSIGN_OR_RETURN(const std::string token, LoadToken({}, MissingToken::kRefuse, environment));
  return DataKeyOf(token);
}

}  // namespace mtrun
