#include "datasets/remote/origin.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "datasets/remote/fetch_rules.h"

namespace mtrun::datasets {
namespace {

/// Decodes a URL's path, whatever is encoded in it, and encodes it as s3 does before it signs.
std::string EncodedAgain(std::string_view path) {
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
  return PathInUrl(decoded);
}

}  // namespace

absl::StatusOr<Origin> Origin::Make(const fetch::Open& open) {
  MT_ASSIGN_OR_RETURN(DataUrl url, ParseDataUrl(open.url));
  Origin origin(open, url);
  if (!open.secrets.data_key.empty()) {
    MT_ASSIGN_OR_RETURN(origin.key_, ParseDataKey(open.secrets.data_key));
  }
  if (url.scheme != "s3") return origin;
  if (open.secrets.access_key.empty() || open.secrets.secret_key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        open.url, " needs keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_REGION)"));
  }
  if (origin.open_.s3_region.empty()) origin.open_.s3_region = "us-east-1";
  const std::string endpoint = open.s3_endpoint.empty()
                                   ? absl::StrCat("https://s3.", origin.open_.s3_region, ".amazonaws.com")
                                   : open.s3_endpoint;
  absl::StatusOr<DataUrl> parsed = ParseDataUrl(endpoint);
  MT_RETURN_IF_ERROR(Annotate(parsed.status(), "AWS_ENDPOINT_URL"));
  if (parsed->scheme == "s3") return absl::InvalidArgumentError("AWS_ENDPOINT_URL must begin with https://");
  origin.endpoint_ = *std::move(parsed);
  return origin;
}

Trust Origin::first_trust() const {
  return url_.scheme == "https" && key_ ? Trust::kDataKey : Trust::kSystem;
}

std::string Origin::UrlOf(const std::string& file) const { return absl::StrCat(ToText(url_), "/", file); }

/// Sends the derived bearer only to a server that proved to be mtrun's, or to this machine; any other server
/// gets the user's bearer.
void Origin::AddSecrets(Trust trust, FetchRequest& request) const {
  std::string bearer = open_.secrets.bearer;
  if (trust == Trust::kDataKey) {
    bearer = BearerOf(key_->secret, /*encrypted=*/true);
    request.pin = absl::StrCat("sha256//", absl::Base64Escape(absl::HexStringToBytes(key_->pin)));
  }
  if (url_.scheme == "http" && bearer.empty() && key_) bearer = BearerOf(key_->secret, /*encrypted=*/false);
  if (!bearer.empty()) request.headers.emplace_back("Authorization", "Bearer " + bearer);
}

void Origin::AddressForS3(const std::string& file, FetchRequest& request) const {
  const DataUrl server{endpoint_.scheme, endpoint_.host, endpoint_.port, ""};
  request.url = absl::StrCat(ToText(server), EncodedAgain(endpoint_.path), "/", PathInUrl(url_.host),
                             EncodedAgain(url_.path), "/", PathInUrl(file));
  request.direct = IsLoopback(endpoint_.host);
  const fetch::Secrets& secrets = open_.secrets;
  request.s3_keys = S3Keys{secrets.access_key, secrets.secret_key, open_.s3_region};
  request.headers.emplace_back("x-amz-content-sha256", Sha256Hex(""));  // s3 requires it, signed
  if (!secrets.session_token.empty())
    request.headers.emplace_back("x-amz-security-token", secrets.session_token);
}

FetchRequest Origin::RequestFor(const std::string& file, Trust trust) const {
  FetchRequest request{.url = UrlOf(file), .trust = trust, .direct = IsLoopback(url_.host)};
  if (url_.scheme == "s3") {
    AddressForS3(file, request);
  } else {
    AddSecrets(trust, request);
  }
  return request;
}

absl::StatusOr<FetchRequest> Origin::Redirected(const std::string& location, Trust trust, int hops) const {
  const Redirect redirect = JudgeRedirect(url_, location, hops, open_.redirects);
  if (!redirect.follow) return absl::PermissionDeniedError(redirect.why);
  FetchRequest request{.url = location, .trust = redirect.with_secrets ? trust : Trust::kSystem};
  request.direct = redirect.with_secrets && IsLoopback(url_.host);
  if (redirect.with_secrets && url_.scheme != "s3") AddSecrets(trust, request);
  return request;
}

}  // namespace mtrun::datasets
