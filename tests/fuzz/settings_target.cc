#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/settings.h"
#include "base/worker_env.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/invariant.h"

namespace mtrun::fuzz {
namespace {

using Kind = SettingSpec::Kind;

Settings SomeSettings() {
  return Settings(
      "program",
      {{.name = "batch_size", .kind = Kind::kInt, .default_text = "64", .letter = 'b', .min = 1, .max = 1e6},
       {.name = "rate", .kind = Kind::kDouble, .min = 0.0},
       {.name = "shuffle", .kind = Kind::kBool, .default_text = "true"},
       {.name = "device", .default_text = "cpu", .choices = {"cpu", "cuda"}},
       {.name = "run_path", .aliases = {"path"}, .hints = {"folder"}},
       {.name = "run_name", .yields = true}});
}

/// Checks that accepted settings are within their bounds, can be shown, and are the same when they are read again
/// from the file in which a run keeps them.
void Show(const Settings& settings) {
  settings.Table();
  settings.Help();
  settings.Bool("shuffle");
  MT_HOLDS(settings.Int("batch_size") >= 1 && settings.Int("batch_size") <= 1'000'000);
  MT_HOLDS(settings.Text("device") == "cpu" || settings.Text("device") == "cuda");
  if (settings.IsSet("rate")) {
    MT_HOLDS(settings.Double("rate") >= 0);
  }
  const std::string yaml = settings.Yaml("program");
  const InputFile file(yaml);
  Settings again = SomeSettings();
  MT_HOLDS(again.ApplyYaml(file.path(), "program").ok()) << yaml;
  MT_HOLDS(again.Yaml("program") == yaml) << yaml;
}

void ReadYaml(const std::string& text) {
  const InputFile file(text);
  Settings settings = SomeSettings();
  if (settings.ApplyYaml(file.path(), "program").ok()) Show(settings);
}

void ReadFlags(const std::string& text) {
  Settings settings = SomeSettings();
  const std::vector<std::string> words = absl::StrSplit(text, '\n');
  if (settings.ParseFlags(words, true).ok()) Show(settings);
}

void ReadEnvironment(const std::string& text) {
  EnvironmentMap environment;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& line : lines) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
  Settings settings = SomeSettings();
  if (settings.ApplyEnvironment(environment, "PET_").ok()) Show(settings);
  ParseWorkerEnv(environment).IgnoreError();
}

}  // namespace

void FuzzSettings(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string text(bytes.substr(1));
  switch (bytes[0] % 3) {
    case 0:
      return ReadYaml(text);
    case 1:
      return ReadFlags(text);
    default:
      return ReadEnvironment(text);
  }
}

}  // namespace mtrun::fuzz
