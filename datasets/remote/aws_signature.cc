#include "datasets/remote/aws_signature.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "base/string_view.h"

namespace mtrun::datasets {
namespace {

using Headers = std::map<std::string, std::string>;

/// Runs of spaces count as one.
std::string Folded(const std::string& value) {
  std::string folded;
  for (const char c : value) {
    if (c == ' ' && (folded.empty() || folded.back() == ' ')) continue;
    folded += c;
  }
  if (!folded.empty() && folded.back() == ' ') folded.pop_back();
  return folded;
}

std::string SortedQuery(const std::string& query) {
  std::vector<std::string> parts = absl::StrSplit(query, '&', absl::SkipEmpty());
  for (std::string& part : parts) {
    if (part.find('=') == std::string::npos) part += '=';
  }
  std::sort(parts.begin(), parts.end());
  return absl::StrJoin(parts, "&");
}

std::string Names(const Headers& headers) {
  return absl::StrJoin(headers, ";", [](std::string* out, const auto& header) { out->append(header.first); });
}

std::string Scope(const AwsIdentity& identity, const std::string& time) {
  return absl::StrCat(time.substr(0, 8), "/", identity.region, "/", identity.service, "/aws4_request");
}

std::string KeyOf(const AwsIdentity& identity, const std::string& time) {
  std::string key = "AWS4" + identity.secret_key;
  const std::string parts[] = {time.substr(0, 8), identity.region, identity.service, "aws4_request"};
  for (const std::string& part : parts) key = HmacSha256(key, part);
  return key;
}

}  // namespace

std::string AwsTime(int64_t seconds_since_1970) {
  const auto when = static_cast<time_t>(seconds_since_1970);
  tm parts{};
  gmtime_r(&when, &parts);
  return absl::StrFormat("%04d%02d%02dT%02d%02d%02dZ", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                         parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string AwsEncode(std::string_view text, bool keep_slash) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ||
                       c == '_' || c == '~' || (keep_slash && c == '/');
    if (plain) {
      encoded += c;
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string AwsEncodeAgain(std::string_view path) {
  std::string decoded;
  for (size_t i = 0; i < path.size(); ++i) {
    const std::string_view digits = path.substr(i).substr(1, 2);
    const auto is_digit = [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); };
    if (path[i] == '%' && digits.size() == 2 && is_digit(digits[0]) && is_digit(digits[1])) {
      decoded += absl::HexStringToBytes(View(digits));
      i += 2;
    } else {
      decoded += path[i];
    }
  }
  return AwsEncode(decoded, /*keep_slash=*/true);
}

std::string AwsCanonicalRequest(const AwsRequest& request, const Headers& headers) {
  std::string lines;
  for (const auto& [name, value] : headers) absl::StrAppend(&lines, name, ":", Folded(value), "\n");
  return absl::StrCat(request.method, "\n", request.path, "\n", SortedQuery(request.query), "\n", lines, "\n",
                      Names(headers), "\n", Sha256Hex(request.payload));
}

std::string AwsStringToSign(const std::string& canonical_request, const AwsIdentity& identity,
                            const std::string& time) {
  return absl::StrCat("AWS4-HMAC-SHA256\n", time, "\n", Scope(identity, time), "\n",
                      Sha256Hex(canonical_request));
}

Headers AwsSign(const AwsRequest& request, const AwsIdentity& identity, int64_t seconds_since_1970) {
  const std::string time = AwsTime(seconds_since_1970);
  Headers added = {{"x-amz-date", time}};
  if (request.payload_header) added["x-amz-content-sha256"] = Sha256Hex(request.payload);
  if (!identity.session_token.empty()) added["x-amz-security-token"] = identity.session_token;
  Headers all = request.headers;
  all.insert(added.begin(), added.end());
  all["host"] = request.host;
  const std::string to_sign = AwsStringToSign(AwsCanonicalRequest(request, all), identity, time);
  const std::string signature = absl::BytesToHexString(HmacSha256(KeyOf(identity, time), to_sign));
  added["authorization"] =
      absl::StrCat("AWS4-HMAC-SHA256 Credential=", identity.access_key, "/", Scope(identity, time),
                   ", SignedHeaders=", Names(all), ", Signature=", signature);
  return added;
}

}  // namespace mtrun::datasets
