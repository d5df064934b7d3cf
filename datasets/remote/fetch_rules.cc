#include "datasets/remote/fetch_rules.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mtrun::datasets {
namespace {

using Kind = Judgement::Kind;

constexpr int kMaxHops = 5;
constexpr int kMissingTries = 3;  // for a file in the index
constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kMaxPause = std::chrono::seconds(5);
constexpr int64_t kMaxSeconds = 60;
constexpr Duration kSlowWindow = std::chrono::seconds(5);

bool IsS3(const std::string& url) { return absl::StartsWith(url, "s3:"); }

std::string Refused(const TransferEnd& end, const std::string& url) {
  const char* why =
      IsS3(url) ? "the store does not know these keys or denies them access to the bucket: check "
                  "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION"
                : "the server's token differs from this machine's, or the server needs a bearer token "
                  "(--data_bearer_file)";
  return absl::StrCat(url, " is refused (HTTP ", end.status, "): ", why,
                      "; a wrong clock has the same effect");
}

/// If the store is in another region, it answers 400, or 301 without a location.
bool IsRefusal(int status, bool s3) {
  return status == 401 || status == 403 || status == 407 || (s3 && (status == 400 || status == 301));
}

bool IsRedirect(const TransferEnd& end) {
  return end.status >= 300 && end.status < 400 && !end.location.empty();
}
bool SaysMissing(const TransferEnd& end) { return end.status == 404 || end.status == 410; }

}  // namespace

void Tries::Count(const TransferEnd& end) {
  const bool answered = end.link == TransferEnd::Link::kOk;
  if (answered && IsRedirect(end)) return;
  ++all;
  missing = answered && SaysMissing(end) ? missing + 1 : 0;
}

bool MayRecover(int status) { return status >= 500 || status == 408 || status == 425 || status == 429; }

Judgement JudgeTransfer(const TransferEnd& end, const std::string& url, int missing, bool proven) {
  switch (end.link) {
    case TransferEnd::Link::kBroken:
      return {Kind::kAgain, absl::StrCat(url, ": ", end.error)};
    case TransferEnd::Link::kNotWritten:
      return {Kind::kAgain, end.error};
    case TransferEnd::Link::kUntrusted:
      return {
          proven ? Kind::kAgain : Kind::kNever,
          absl::StrCat(
              url, ": the server's certificate is not trusted: ", end.error,
              ". If it is mtdata serve, its token differs from this machine's; if not, its certificate is "
              "unknown to this system. A wrong clock has the same effect")};
    case TransferEnd::Link::kOk:
      break;
  }
  if (end.status == 200 || end.status == 206) return {Kind::kDone, ""};
  if (end.status == 416)
    return {Kind::kRestart, absl::StrCat(url, " is shorter than the part that was already fetched")};
  if (IsRedirect(end)) return {Kind::kFollow, ""};
  if (IsRefusal(end.status, IsS3(url))) {
    const bool may_be_another = proven && absl::StartsWith(url, "http:");
    return {may_be_another ? Kind::kAgain : Kind::kNever, Refused(end, url)};
  }
  const std::string answered = absl::StrCat(url, ": the server answers HTTP ", end.status);
  if (SaysMissing(end)) {
    if (missing < kMissingTries) return {Kind::kAgain, answered};
    return {Kind::kNever, absl::StrCat(url, " does not exist (HTTP ", end.status,
                                       "): the name is wrong, or the data set is incomplete")};
  }
  if (MayRecover(end.status)) return {Kind::kAgain, answered};
  return {Kind::kNever, answered};
}

std::optional<double> SlowWatch::Look(TimePoint now, int64_t bytes) {
  if (now - since_ < kSlowWindow) return slow_;
  const double rate = static_cast<double>(bytes - bytes_) / ToSeconds(now - since_);
  slow_ = rate < static_cast<double>(kLeastBytesASecond) ? std::optional(rate) : std::nullopt;
  since_ = now;
  bytes_ = bytes;
  return slow_;
}

std::string SlowText(const std::string& url, double bytes_a_second) {
  return absl::StrFormat(
      "%s arrives with only %.0f bytes per second; after %d s with fewer than %d it is requested again", url,
      bytes_a_second, kSlowSeconds, kLeastBytesASecond);
}

Duration PauseBefore(int tries, double random, std::optional<int64_t> wait_seconds) {
  Duration pause = kFirstPause;
  for (int i = 1; i < tries && pause < kMaxPause; ++i) pause *= 2;
  pause = std::min(pause, kMaxPause);
  pause -= Duration(static_cast<int64_t>(random * 0.5 * static_cast<double>(pause.count())));
  const int64_t asked = std::clamp<int64_t>(wait_seconds.value_or(0), 0, kMaxSeconds);
  return std::max<Duration>(pause, std::chrono::seconds(asked));
}

Redirect JudgeRedirect(const DataUrl& from, const std::string& location, int hops, bool others_allowed) {
  if (hops >= kMaxHops) return {.why = absl::StrCat("more than ", kMaxHops, " redirects")};
  // Ignore the query, which belongs to the storage (signed URLs have one): only the host matters here.
  const absl::StatusOr<DataUrl> to = ParseDataUrl(location.substr(0, location.find_first_of("?#")));
  if (!to.ok()) return {.why = absl::StrCat("it leads to ", to.status().message())};
  if (from.scheme == "https" && to->scheme != "https") return {.why = "it leads away from https"};
  if (to->scheme == "s3") return {.why = "it leads to s3"};
  const bool same = to->host == from.host && to->port == from.port && to->scheme == from.scheme;
  if (!same && !others_allowed) {
    return {.why = absl::StrCat(
                "it leads to ", to->host, ":", to->port,
                ", but only the host that was given is contacted (--data_redirects allows others)")};
  }
  return {.follow = true, .with_secrets = same};
}

}  // namespace mtrun::datasets
