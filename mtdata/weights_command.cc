// mtdata weights: fetches published weights because they were asked for by name.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/published_weights.h"
#include "base/settings.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "base/worker_env.h"
#include "datasets/packed/data_url.h"
#include "mtdata/commands.h"
#include "mtdata/download.h"
#include "mtdata/stop_signal.h"

namespace mtrun::mtdata {
namespace {

constexpr int64_t kReportEvery = 16 << 20;  // bytes

std::vector<SettingSpec> WeightsSpecs() {
  return {{.name = "mirror",
           .default_text = kPublishedUrl,
           .help = "URL of a folder with the same files.",
           .value = "URL"}};
}

/// Prints what the download waits for, and its progress.
class Reporter {
 public:
  absl::Status operator()(int64_t received, const std::string& trouble) {
    MT_RETURN_IF_ERROR(CheckNotStopped());
    if (received > received_) trouble_.clear();
    received_ = received;
    if (!trouble.empty() && trouble != trouble_) log::Warning("waiting: ", trouble_ = trouble);
    if (received - reported_ < kReportEvery) return absl::OkStatus();
    reported_ = received;
    log::Info(absl::StrFormat("%.0f MiB", static_cast<double>(received) / (1 << 20)));
    return absl::OkStatus();
  }

 private:
  std::string trouble_;  // that was printed since bytes came
  int64_t received_ = 0, reported_ = 0;
};

absl::Status FetchWeights(const PublishedWeights& weights, const std::string& mirror) {
  MT_RETURN_IF_ERROR(Annotate(datasets::ParseDataUrl(mirror).status(), "--mirror"));
  const EnvironmentMap environment = CurrentEnvironment();
  if (const auto there = FindOnDisk(weights, environment); there.ok()) {
    log::Info("it is there already");
    return PrintOut(*there + "\n");
  }
  const Download download{.url = absl::StrCat(mirror, "/", View(weights.file)),
                          .path = absl::StrCat(HubFolder(environment), "/", View(weights.file)),
                          .digits = weights.Digits()};
  log::Info("fetching ", download.url);
  Reporter report;
  MT_RETURN_IF_ERROR(FetchFile(download, std::ref(report)));
  log::Info("its SHA-256 begins with ", download.digits,
            ", as published; `resnet --weights imagenet` takes it");
  return PrintOut(download.path + "\n");
}

int RunWeights(const Settings& settings, const std::vector<std::string>& words) {
  const absl::StatusOr<PublishedWeights> weights = FindPublished(words[0]);
  if (!weights.ok()) return datasets::Complain(datasets::kUsage, weights.status());
  StopAtSignals();
  const absl::Status fetched = FetchWeights(*weights, settings.Text("mirror"));
  return fetched.ok() ? 0 : ComplainOfDownload(fetched);
}

}  // namespace

datasets::Command WeightsCommand() {
  return {.name = "weights",
          .help = {.purpose = "Fetches weights that torchvision publishes into PyTorch's cache.",
                   .usage = {"mtdata weights resnet18|resnet34|resnet50 [flags]"},
                   .examples = {{"for resnet --depth 50 --weights imagenet; prints the file's path",
                                 "mtdata weights resnet50"},
                                {"from a copy of that folder",
                                 "mtdata weights resnet18 --mirror https://HOST/models"}}},
          .specs = WeightsSpecs,
          .words = {"NETWORK"},
          .run = RunWeights,
          .give = "give one network, as in `mtdata weights resnet18`"};
}

}  // namespace mtrun::mtdata
