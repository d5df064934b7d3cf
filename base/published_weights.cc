#include "base/published_weights.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "base/string_view.h"
#include "base/value_or.h"

namespace mtrun {
namespace {

constexpr PublishedWeights kPublished[] = {
    {"resnet18", "resnet18-f37072fd.pth"},
    {"resnet34", "resnet34-b627a593.pth"},
    {"resnet50", "resnet50-11ad3fa6.pth"},
};

}  // namespace

std::string PublishedWeights::Digits() const {
  const size_t begin = file.rfind('-') + 1;
  return std::string(file.substr(begin, file.rfind('.') - begin));
}

absl::StatusOr<PublishedWeights> FindPublished(std::string_view network) {
  std::string names;
  for (const PublishedWeights& weights : kPublished) {
    if (weights.network == network) return weights;
    absl::StrAppend(&names, names.empty() ? "" : ", ", View(weights.network));
  }
  return absl::NotFoundError(
      absl::StrCat("there are no published weights of \"", View(network), "\", only of ", names));
}

std::string HubFolder(const EnvironmentMap& environment) {
  std::string home = ValueOr(environment, "TORCH_HOME");
  if (home.empty()) {
    std::string cache = ValueOr(environment, "XDG_CACHE_HOME");
    if (cache.empty()) cache = ValueOr(environment, "HOME") + "/.cache";
    home = cache + "/torch";
  }
  return home + "/hub/checkpoints";
}

absl::StatusOr<std::string> FindOnDisk(const PublishedWeights& weights, const EnvironmentMap& environment) {
  const std::string folder = HubFolder(environment), path = absl::StrCat(folder, "/", View(weights.file));
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode)) return path;
  return absl::NotFoundError(absl::StrCat(
      path, " is not there: `mtdata weights ", View(weights.network), "` fetches it, or put ", kPublishedUrl,
      "/", View(weights.file), " there yourself (its SHA-256 begins with ", weights.Digits(), ")"));
}

}  // namespace mtrun
