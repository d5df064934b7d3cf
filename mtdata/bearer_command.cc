#include "mtdata/bearer_command.h"

#include "base/data_key.h"
#include "base/settings.h"
#include "base/token.h"

namespace mtrun::mtdata {
namespace {

std::vector<SettingSpec> BearerSpecs() {
  const std::string group = "Flags";
  return {{.name = "token_file",
           .help = "File with the cluster's token.",
           .group = group,
           .value = "FILE",
           .otherwise = "$MTRUN_TOKEN, else ~/.mtrun/token"},
          {.name = "plain",
           .kind = SettingSpec::Kind::kBool,
           .default_text = "false",
           .help = "For a server that was started with --plain.",
           .group = group}};
}

int RunBearer(const std::vector<std::string>& args) {
  Settings settings("mtdata bearer", BearerSpecs());
  const auto words = datasets::WordsOf(settings, args);
  if (!words.ok()) return datasets::Complain(datasets::kUsage, words.status());
  if (!words->empty())
    return datasets::Complain(datasets::kUsage,
                              absl::InvalidArgumentError("`mtdata bearer` takes only flags"));
  const absl::StatusOr<std::string> token =
      LoadToken({.file = settings.Text("token_file")}, MissingToken::kRefuse);
  if (!token.ok()) return datasets::Complain(datasets::kFailure, token.status());
  return datasets::Answer(MetricsBearerOf(ReadingSecretOf(*token), !settings.Bool("plain")) + "\n");
}

}  // namespace

datasets::Command BearerCommand() {
  return {.name = "bearer",
          .help = {.purpose = "Prints the bearer token for the /metrics of mtdata serve.",
                   .usage = {"mtdata bearer [flags]"},
                   .examples = {{"for Prometheus, for example", "mtdata bearer"}}},
          .specs = BearerSpecs,
          .run = RunBearer};
}

}  // namespace mtrun::mtdata
