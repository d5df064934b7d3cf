#include "datasets/cache/set_request.h"

#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/data_key.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "datasets/cache/cache_layout.h"
#include "datasets/packed/data_url.h"

namespace mtrun::datasets {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

std::string FirstOf(const EnvironmentMap& environment, const char* name, const char* otherwise) {
  const std::string value = ValueOr(environment, name);
  return value.empty() ? ValueOr(environment, otherwise) : value;
}

/// Returns the mtdata beside this program (in the build or installed), otherwise the one in PATH.
std::string FetcherProgram() {
  const absl::StatusOr<std::string> here = ExecutableFolder();
  if (!here.ok()) return "mtdata";
  for (const char* way : {"", "/../bin", "/../../bin"}) {
    const std::string path = absl::StrCat(*here, way, "/mtdata");
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "mtdata";
}

std::string Gib(int64_t bytes) { return absl::StrFormat("%.3g", static_cast<double>(bytes) / kGib); }

absl::StatusOr<std::string> ReadBearer(const std::string& file) {
  absl::StatusOr<std::string> text = ReadFile(file);
  MT_RETURN_IF_ERROR(Annotate(text.status(), "--data_bearer_file"));
  const std::string bearer(absl::StripAsciiWhitespace(*text));
  for (const char c : bearer) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c)))
      return absl::InvalidArgumentError(
          absl::StrCat("--data_bearer_file ", file, " must hold a single word"));
  }
  return bearer;
}

}  // namespace

absl::StatusOr<SetRequest> MakeSetRequest(const std::string& url, const RemoteOptions& options,
                                          const EnvironmentMap& environment) {
  MT_ASSIGN_OR_RETURN(const DataUrl parsed, ParseDataUrl(url));
  SetRequest request{.cache = options.cache.empty() ? DefaultCache(environment) : options.cache,
                     .open = {.url = ToText(parsed)},
                     .fetcher = {FetcherProgram(), "fetch", "--node"}};
  fetch::Open& open = request.open;
  open.redirects = options.redirects;
  open.cache_bytes = static_cast<int64_t>(options.cache_gib * kGib);
  if (parsed.scheme == "s3") {
    open.secrets.access_key = ValueOr(environment, "AWS_ACCESS_KEY_ID");
    open.secrets.secret_key = ValueOr(environment, "AWS_SECRET_ACCESS_KEY");
    open.secrets.session_token = ValueOr(environment, "AWS_SESSION_TOKEN");
    open.s3_endpoint = FirstOf(environment, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    open.s3_region = FirstOf(environment, "AWS_REGION", "AWS_DEFAULT_REGION");
    return request;
  }
  absl::StatusOr<std::string> key = FindDataKey(environment);
  if (!key.ok() && !absl::IsNotFound(key.status())) return key.status();
  open.secrets.data_key = key.value_or("");  // third-party servers need none
  if (!options.bearer_file.empty()) {
    MT_ASSIGN_OR_RETURN(open.secrets.bearer, ReadBearer(options.bearer_file));
  }
  return request;
}

absl::Status CheckFits(const std::string& url, int64_t bytes, int64_t cache_bytes) {
  if (cache_bytes == 0 || bytes <= cache_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(url, " has ", Gib(bytes), " GiB, but the cache may hold only ", Gib(cache_bytes),
                   ": give --cache_gib ", Gib(bytes + (1 << 30)),
                   " (0: as much as the disk holds), with --cache on a larger disk if needed; or copy "
                   "the set to a folder on each node and give that folder"));
}

}  // namespace mtrun::datasets
