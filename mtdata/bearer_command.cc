#include "mtdata/bearer_command.h"

#include "base/data_key.h"
#include "base/settings.h"
#include "base/token.h"

namespace mtrun::mtdata {
namespace {

std::vector<SettingSpec> BearerSpecs() {
  const std::string group = "flags of bearer";
  return {{.name = "token_file",
           .help = "File with the cluster's token instead of MTRUN_TOKEN or ~/.mtrun/token.",
           .group = group},
          {.name = "plain",
           .kind = SettingSpec::Kind::kBool,
           .default_text = "false",
           .help = "Of a server with --plain.",
           .group = group}};
}

int RunBearer(const std::vector<std::string>& args) {
  Settings settings("mtdata bearer", BearerSpecs());
  const auto words = datasets::WordsOf(settings, args);
  if (!words.ok()) return datasets::Complain(datasets::kUsage, words.status());
  if (!words->empty())
    return datasets::Complain(datasets::kUsage,
                              absl::InvalidArgumentError("`mtdata bearer` takes flags alone"));
  const absl::StatusOr<std::string> token =
      LoadToken({.file = settings.Text("token_file")}, MissingToken::kRefuse);
  if (!token.ok()) return datasets::Complain(datasets::kFailure, token.status());
  return datasets::Answer(MetricsBearerOf(DataKeyOf(*token), !settings.Bool("plain")) + "\n");
}

}  // namespace

datasets::Command BearerCommand() {
  return {.name = "bearer",
          .usage =
              "       mtdata bearer [flags]               print what Prometheus shows to read a server's "
              "/metrics\n",
          .flags = [] { return Settings("mtdata", BearerSpecs()).Help(); },
          .run = RunBearer};
}

}  // namespace mtrun::mtdata
