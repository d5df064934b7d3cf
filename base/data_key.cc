#include "base/data_key.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "base/value_or.h"
#include "base/worker_client.h"

namespace mtrun {

std::string ReadingSecretOf(std::string_view token) {
  return absl::BytesToHexString(HmacSha256(token, "mtrun: reading data sets"));
}

absl::StatusOr<TlsIdentity> DataServerIdentity(std::string_view token) {
  return DeriveIdentity(HmacSha256(token, "mtrun data server: private key"));
}

absl::StatusOr<DataKey> DataKeyOf(std::string_view token) {
  MT_ASSIGN_OR_RETURN(const TlsIdentity identity, DataServerIdentity(token));
  MT_ASSIGN_OR_RETURN(std::string pin, PublicKeyPin(identity));
  return DataKey{ReadingSecretOf(token), std::move(pin)};
}

std::string ToText(const DataKey& key) { return absl::StrCat(key.secret, ".", key.pin); }

absl::StatusOr<DataKey> ParseDataKey(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos || !IsSha256(text.substr(0, dot)) || !IsSha256(text.substr(dot + 1))) {
    return absl::InvalidArgumentError(absl::StrCat(
        kDataKeyVariable,
        " does not hold the key of a data server: set it to the output of `mtdata key`, or unset it"));
  }
  return DataKey{std::string(text.substr(0, dot)), std::string(text.substr(dot + 1))};
}

std::string BearerOf(std::string_view secret, bool encrypted) {
  return absl::BytesToHexString(
      HmacSha256(secret, encrypted ? "mtrun data server: bearer" : "mtrun data server: bearer in the open"));
}

std::string MetricsBearerOf(std::string_view secret, bool encrypted) {
  return absl::BytesToHexString(HmacSha256(BearerOf(secret, encrypted), "metrics"));
}

absl::StatusOr<std::string> FindDataKey(const EnvironmentMap& environment, const TokenSource& source) {
  if (source.file.empty()) {
    if (std::string given = ValueOr(environment, kDataKeyVariable); !given.empty()) {
      MT_RETURN_IF_ERROR(ParseDataKey(given).status());
      return given;
    }
    if (const std::string socket = ValueOr(environment, "MTRUN_SOCKET"); !socket.empty()) {
      MT_ASSIGN_OR_RETURN(std::string key, AskAgentForDataKey(socket));
      if (!key.empty()) return key;
    }
  }
  MT_ASSIGN_OR_RETURN(const std::string token, LoadToken(source, MissingToken::kRefuse, environment));
  MT_ASSIGN_OR_RETURN(const DataKey key, DataKeyOf(token));
  return ToText(key);
}

}  // namespace mtrun
