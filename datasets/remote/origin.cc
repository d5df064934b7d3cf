#include "datasets/remote/origin.h"

#include "absl/strings/str_cat.h"
#include "base/data_key.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "datasets/remote/aws_signature.h"
#include "datasets/remote/fetch_rules.h"

namespace mtrun::datasets {
namespace {

/// "host" or "host:port", as a Host header has it.
std::string Authority(const DataUrl& url) {
  const std::string text = ToText(DataUrl{url.scheme, url.host, url.port, ""});
  return text.substr(text.find("://") + 3);
}

}  // namespace

absl::StatusOr<Origin> Origin::Make(const fetch::Open& open) {
  MT_ASSIGN_OR_RETURN(DataUrl url, ParseDataUrl(open.url));
  Origin origin(open, url);
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
  if (parsed->scheme == "s3") return absl::InvalidArgumentError("AWS_ENDPOINT_URL begins with https://");
  origin.endpoint_ = *std::move(parsed);
  return origin;
}

Trust Origin::first_trust() const {
  return url_.scheme == "https" && !open_.secrets.data_key.empty() ? Trust::kDataKey : Trust::kSystem;
}

std::string Origin::UrlOf(const std::string& file) const { return absl::StrCat(ToText(url_), "/", file); }

/// The derived bearer is for a server that has proved to hold the key, or on this machine; any other one gets
/// what the user has given for it.
void Origin::AddBearer(Trust trust, FetchRequest& request) const {
  const fetch::Secrets& secrets = open_.secrets;
  std::string bearer = secrets.bearer;
  if (trust == Trust::kDataKey) bearer = BearerOf(secrets.data_key, /*encrypted=*/true);
  if (url_.scheme == "http" && bearer.empty() && !secrets.data_key.empty())
    bearer = BearerOf(secrets.data_key, /*encrypted=*/false);
  if (!bearer.empty()) request.headers.emplace_back("Authorization", "Bearer " + bearer);
}

void Origin::SignForS3(const std::string& file, int64_t seconds, FetchRequest& request) const {
  const std::string path = absl::StrCat(AwsEncodeAgain(endpoint_.path), "/", AwsEncode(url_.host, false),
                                        AwsEncodeAgain(url_.path), "/", AwsEncode(file, true));
  request.url = absl::StrCat(ToText(DataUrl{endpoint_.scheme, endpoint_.host, endpoint_.port, ""}), path);
  request.direct = IsLoopback(endpoint_.host);
  const AwsIdentity identity{.access_key = open_.secrets.access_key,
                             .secret_key = open_.secrets.secret_key,
                             .session_token = open_.secrets.session_token,
                             .region = open_.s3_region};
  for (auto& [name, value] : AwsSign({.host = Authority(endpoint_), .path = path}, identity, seconds))
    request.headers.emplace_back(name, value);
}

FetchRequest Origin::RequestFor(const std::string& file, Trust trust, int64_t seconds) const {
  FetchRequest request{.url = UrlOf(file), .trust = trust, .direct = IsLoopback(url_.host)};
  if (url_.scheme == "s3") {
    SignForS3(file, seconds, request);
  } else {
    AddBearer(trust, request);
  }
  return request;
}

absl::StatusOr<FetchRequest> Origin::Redirected(const std::string& location, Trust trust, int hops) const {
  const Redirect redirect = JudgeRedirect(url_, location, hops, open_.redirects);
  if (!redirect.follow) return absl::PermissionDeniedError(redirect.why);
  FetchRequest request{.url = location, .trust = redirect.with_secrets ? trust : Trust::kSystem};
  request.direct = redirect.with_secrets && IsLoopback(url_.host);
  if (redirect.with_secrets && url_.scheme != "s3") AddBearer(trust, request);
  return request;
}

}  // namespace mtrun::datasets
