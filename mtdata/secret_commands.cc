#include "mtdata/secret_commands.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "base/data_key.h"
#include "base/settings.h"
#include "base/status_macros.h"
#include "base/token.h"

namespace mtrun::mtdata {
namespace {

using Secret = std::function<absl::StatusOr<std::string>(const std::string& token, const Settings& settings)>;

const SettingSpec kTokenFile = {.name = "token_file",
                                .help = "File with the cluster's token.",
                                .group = "Flags",
                                .value = "FILE",
                                .otherwise = "$MTRUN_TOKEN, else ~/.mtrun/token"};

/// Prints a secret that derives from the token; returns the exit status. `command`: "mtdata key".
int PrintSecret(const std::string& command, const std::vector<SettingSpec>& specs,
                const std::vector<std::string>& args, const Secret& secret_of) {
  Settings settings(command, specs);
  const auto words = settings.ParseWords(args);
  if (!words.ok()) return datasets::Complain(datasets::kUsage, words.status());
  if (!words->empty())
    return datasets::Complain(datasets::kUsage,
                              absl::InvalidArgumentError(absl::StrCat("`", command, "` takes only flags")));
  const absl::StatusOr<std::string> token =
      LoadToken({.file = settings.Text("token_file")}, MissingToken::kRefuse);
  if (!token.ok()) return datasets::Complain(datasets::kFailure, token.status());
  const absl::StatusOr<std::string> secret = secret_of(*token, settings);
  if (!secret.ok()) return datasets::Complain(datasets::kFailure, secret.status());
  return datasets::Answer(*secret + "\n");
}

std::vector<SettingSpec> KeySpecs() { return {kTokenFile}; }

int RunKey(const std::vector<std::string>& args) {
  const Secret key = [](const std::string& token, const Settings&) -> absl::StatusOr<std::string> {
    MT_ASSIGN_OR_RETURN(const DataKey found, DataKeyOf(token));
    return ToText(found);
  };
  return PrintSecret("mtdata key", KeySpecs(), args, key);
}

std::vector<SettingSpec> BearerSpecs() {
  return {kTokenFile,
          {.name = "plain",
           .kind = SettingSpec::Kind::kBool,
           .default_text = "false",
           .help = "For a server that was started with --plain.",
           .group = "Flags"}};
}

int RunBearer(const std::vector<std::string>& args) {
  return PrintSecret("mtdata bearer", BearerSpecs(), args,
                     [](const std::string& token, const Settings& settings) {
                       return MetricsBearerOf(ReadingSecretOf(token), !settings.Bool("plain"));
                     });
}

}  // namespace

datasets::Command KeyCommand() {
  return {.name = "key",
          .help = {.purpose = "Prints the key that permits reading from mtdata serve, for MTRUN_DATA_KEY.",
                   .usage = {"mtdata key [flags]"},
                   .examples = {{"for a machine that must not have the token", "mtdata key"}}},
          .specs = KeySpecs,
          .run = RunKey};
}

datasets::Command BearerCommand() {
  return {.name = "bearer",
          .help = {.purpose = "Prints the bearer token for the /metrics of mtdata serve.",
                   .usage = {"mtdata bearer [flags]"},
                   .examples = {{"for Prometheus, for example", "mtdata bearer"}}},
          .specs = BearerSpecs,
          .run = RunBearer};
}

}  // namespace mtrun::mtdata
