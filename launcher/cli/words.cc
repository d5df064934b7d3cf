#include "launcher/cli/words.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/posix.h"
#include "base/settings.h"
#include "base/status_macros.h"
#include "launcher/cli/option_table.h"

namespace mtrun::launcher {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kWords[] = {"train", "status", "top", "stop", "doctor", "predict", "export"};

Words Joined(Words first, Words::const_iterator begin, Words::const_iterator end) {
  first.insert(first.end(), begin, end);
  return first;
}

/// Returns mtrun's flags of `rest`, then --trainer and what follows them.
Words TrainFlags(const Words& rest) {
  Settings trial("mtrun", OptionTable());
  const absl::StatusOr<Words> after = trial.ParseFlags(rest, /*positionals_allowed=*/true);
  if (!after.ok()) return rest;  // ParseOptions finds the same error
  const auto name = rest.end() - static_cast<std::ptrdiff_t>(after->size());
  Words flags(rest.begin(), name);
  flags.push_back("--trainer");
  return Joined(std::move(flags), name, rest.end());
}

}  // namespace

bool IsWord(const std::string& word) {
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

absl::StatusOr<Words> FlagsForWord(const Words& args, const TrainerOf& trainer_of) {
  if (args.empty() || !IsWord(args.front())) return args;
  const std::string& word = args.front();
  const Words rest(args.begin() + 1, args.end());
  if (word == "train") return TrainFlags(rest);
  if (word != "predict" && word != "export") return Joined({"--" + word}, rest.begin(), rest.end());
  if (rest.empty() || rest.front().starts_with("-"))
    return absl::InvalidArgumentError(
        absl::StrCat("give the run: mtrun ", word, " runs/cnnA ", word == "predict" ? "FILE" : "FOLDER"));
  MT_ASSIGN_OR_RETURN(const std::string trainer, trainer_of(rest.front()));
  return Joined({"--trainer", trainer, "--weights_of", rest.front(), "--" + word}, rest.begin() + 1,
                rest.end());
}

absl::StatusOr<std::string> TrainerOfRun(const std::string& run) {
  const std::string path = run + "/config.yaml";
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok())
    return absl::NotFoundError(absl::StrCat(run, " is no run of a trainer: it has no config.yaml"));
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (!line.empty() && line.front() != ' ' && line.front() != '#' && absl::ConsumeSuffix(&line, ":"))
      return std::string(line);
  }
  return absl::NotFoundError(absl::StrCat(path, " has no section of a trainer"));
}

}  // namespace mtrun::launcher
