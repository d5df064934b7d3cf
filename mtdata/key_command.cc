#include "mtdata/key_command.h"

#include "base/data_key.h"
#include "base/settings.h"
#include "base/token.h"

namespace mtrun::mtdata {
namespace {

std::vector<SettingSpec> KeySpecs() {
  return {{.name = "token_file",
           .help = "File with the cluster's token.",
           .group = "Flags",
           .value = "FILE",
           .otherwise = "$MTRUN_TOKEN, else ~/.mtrun/token"}};
}

int RunKey(const std::vector<std::string>& args) {
  Settings settings("mtdata key", KeySpecs());
  const auto words = datasets::WordsOf(settings, args);
  if (!words.ok()) return datasets::Complain(datasets::kUsage, words.status());
  if (!words->empty())
    return datasets::Complain(datasets::kUsage, absl::InvalidArgumentError("`mtdata key` takes only flags"));
  const absl::StatusOr<std::string> token =
      LoadToken({.file = settings.Text("token_file")}, MissingToken::kRefuse);
  if (!token.ok()) return datasets::Complain(datasets::kFailure, token.status());
  const absl::StatusOr<DataKey> key = DataKeyOf(*token);
  if (!key.ok()) return datasets::Complain(datasets::kFailure, key.status());
  return datasets::Answer(ToText(*key) + "\n");
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

}  // namespace mtrun::mtdata
