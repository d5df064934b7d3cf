// `mtdata key` and `mtdata bearer`: print what clients without the token need for mtdata serve.
#include <functional>

#include "base/data_key.h"
#include "base/settings.h"
#include "base/status_macros.h"
#include "base/token.h"
#include "mtdata/commands.h"

namespace mtrun::mtdata {
namespace {

using Secret = std::function<absl::StatusOr<std::string>(const std::string& token)>;

const SettingSpec kTokenFile = {.name = "token_file",
                                .help = "File with the cluster's token.",
                                .value = "FILE",
                                .otherwise = "$MTRUN_TOKEN, else ~/.mtrun/token"};

/// Prints a secret that derives from the token; returns the exit status.
int PrintSecret(const Settings& settings, const Secret& secret_of) {
  const absl::StatusOr<std::string> token =
      LoadToken({.file = settings.Text("token_file")}, MissingToken::kRefuse);
  if (!token.ok()) return datasets::Complain(datasets::kFailure, token.status());
  const absl::StatusOr<std::string> secret = secret_of(*token);
  if (!secret.ok()) return datasets::Complain(datasets::kFailure, secret.status());
  return datasets::Answer(*secret + "\n");
}

std::vector<SettingSpec> KeySpecs() { return {kTokenFile}; }

int RunKey(const Settings& settings, const std::vector<std::string>&) {
  return PrintSecret(settings, [](const std::string& token) -> absl::StatusOr<std::string> {
    MT_ASSIGN_OR_RETURN(const DataKey key, DataKeyOf(token));
    return ToText(key);
  });
}

std::vector<SettingSpec> BearerSpecs() {
  return {kTokenFile, SwitchSpec("plain", "false", "For a server that was started with --plain.")};
}

int RunBearer(const Settings& settings, const std::vector<std::string>&) {
  return PrintSecret(settings, [&](const std::string& token) {
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
          .words = {},
          .run = RunKey,
          .give = "`mtdata key` takes only flags"};
}

datasets::Command BearerCommand() {
  return {.name = "bearer",
          .help = {.purpose = "Prints the bearer token for the /metrics of mtdata serve.",
                   .usage = {"mtdata bearer [flags]"},
                   .examples = {{"for Prometheus, for example", "mtdata bearer"}}},
          .specs = BearerSpecs,
          .words = {},
          .run = RunBearer,
          .give = "`mtdata bearer` takes only flags"};
}

}  // namespace mtrun::mtdata
