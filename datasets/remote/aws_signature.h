// Signature Version 4 of Amazon's services (AWS General Reference, "Signing AWS API requests"), for reading
// objects: the payload is empty. Pure: the time is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace mtrun::datasets {

struct AwsRequest {
  std::string method = "GET";
  std::string host;                                 // with the port where it is not the scheme's own
  std::string path = "/";                           // percent-encoded once; s3 does not encode it again
  std::string query = "";                           // "name=value&...", encoded; in any order
  std::map<std::string, std::string> headers = {};  // to be signed besides host and date; names in lower case
  std::string payload = "";
  bool payload_header = true;  // x-amz-content-sha256, which s3 demands
};

struct AwsIdentity {
  std::string access_key, secret_key;
  std::string session_token = "";  // "": none
  std::string region = "us-east-1";
  std::string service = "s3";
};

/// "20150830T123600Z".
std::string AwsTime(int64_t seconds_since_1970);

/// The headers to send besides `request.headers`: authorization, x-amz-date, and where they belong
/// x-amz-content-sha256 and x-amz-security-token.
std::map<std::string, std::string> AwsSign(const AwsRequest& request, const AwsIdentity& identity,
                                           int64_t seconds_since_1970);

/// The steps in between, which the published vectors have too.
std::string AwsCanonicalRequest(const AwsRequest& request, const std::map<std::string, std::string>& headers);
std::string AwsStringToSign(const std::string& canonical_request, const AwsIdentity& identity,
                            const std::string& time);

/// Percent-encodes all but letters, digits, "-", ".", "_", "~" and, with `keep_slash`, "/".
std::string AwsEncode(std::string_view text, bool keep_slash);
/// A path of a URL, in whatever form it was given, as AwsEncode has it: what is percent-encoded is decoded
/// first. s3 signs this form of what it was asked for.
std::string AwsEncodeAgain(std::string_view path);

}  // namespace mtrun::datasets
