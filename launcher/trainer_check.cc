#include "launcher/trainer_check.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/posix.h"
#include "base/standard_output.h"
#include "launcher/cli/option_table.h"
#include "launcher/cli/program_answer.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {
namespace {

constexpr int kNotStarted = 127;

/// Returns the name in "--name" or "--name=value", with underscores; "" for other words.
std::string FlagNameOf(const std::string& word) {
  if (!absl::StartsWith(word, "--")) return "";
  return absl::StrReplaceAll(word.substr(2, word.find('=') - 2), {{"-", "_"}});
}

/// Returns whether one of the flags `names` is among a trainer's `words`.
bool HasFlag(const std::vector<std::string>& words, const std::set<std::string>& names) {
  return std::any_of(words.begin(), words.end(),
                     [&names](const std::string& word) { return names.contains(FlagNameOf(word)); });
}

void SetConfiguredWorld(const Options& options) {
  setenv("MTRUN_CONFIGURED_WORLD", absl::StrCat(options.job.max_nodes * options.workers).c_str(), 1);
}

/// Runs a child that dies with this process, which has no guardian yet. Returns its exit status; -1 if it did
/// not exit by itself.
int Run(const std::string& file, const std::vector<std::string>& argv) {
  const std::vector<char*> words = ExecWords(argv);
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) return -1;
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) execv(file.c_str(), words.data());
    _exit(kNotStarted);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Returns its description; its path if it cannot run (without LibTorch, for example).
std::string WhatItDoes(const Program& program, const std::string& executable_folder) {
  const std::string& file = program.python ? program.argv.back() : program.file;
  const bool in_build = program.python && std::filesystem::path(file).parent_path() == executable_folder;
  const bool ours = in_build || ComesWithMtrun(file, executable_folder);
  std::vector<std::string> argv = program.argv;
  argv.push_back("--help");
  const std::string help = ours ? AnswerOf(argv, std::chrono::seconds(20)).value_or("") : "";
  return help.empty() ? file : help.substr(0, help.find('\n'));
}

}  // namespace

std::vector<std::string> MisplacedFlags(const std::vector<std::string>& words) {
  const std::set<std::string> of_both = {"config", "help", "version"};
  std::set<std::string> names;
  for (const Option& option : OptionRows()) names.insert(option.spec.name);
  std::vector<std::string> misplaced;
  for (const std::string& word : words) {
    const std::string name = FlagNameOf(word);
    if (names.contains(name) && !of_both.contains(name)) misplaced.push_back("--" + name);
  }
  return misplaced;
}

bool AsksTrainer(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word == "--help" || word == "--version"; });
}

bool AsksOneProcess(const std::vector<std::string>& words) {
  return HasFlag(words, {"predict", "export", "check", "preview", "sample"});
}

bool AsksEvaluation(const std::vector<std::string>& words) { return HasFlag(words, {"evaluate"}); }

void BecomeTrainer(const Program& program) { execv(program.file.c_str(), ExecWords(program.argv).data()); }

void BecomeOneProcess(const Options& options, const Program& program) {
  SetConfiguredWorld(options);
  setenv("MTRUN_PRINTS_CHECK", "1", 1);
  BecomeTrainer(program);
}

int CheckTrainer(const Options& options, const Program& program) {
  const bool alone = options.job.max_nodes == 1;
  std::vector<std::string> argv = program.argv;
  argv.insert(argv.begin() + 1, alone ? "--check" : "--check_settings");
  SetConfiguredWorld(options);
  const int status = Run(program.file, argv);
  // Other failures recur in the workers, under supervision.
  if (status != rendezvous::kWrongSettingsStatus) {
    setenv("MTRUN_CHECKED", "1", 1);
    return 0;
  }
  const std::vector<std::string> misplaced = MisplacedFlags(options.entry.words);
  if (!misplaced.empty()) {
    const bool one = misplaced.size() == 1;
    PrintError("mtrun",
               absl::StrCat(absl::StrJoin(misplaced, ", "), one ? " is a flag" : " are flags",
                            " of mtrun: put ", one ? "it" : "them", " in front of --trainer ", program.name));
  }
  return status;
}

std::string ListTrainers(const EnvironmentMap& environment, const std::string& executable_folder) {
  std::string text;
  for (const std::string& name : FindTrainers(environment, executable_folder)) {
    const absl::StatusOr<Program> program = ResolveProgram({.trainer = name}, environment, executable_folder);
    absl::StrAppendFormat(&text, "%-10s  %s\n", name,
                          program.ok() ? WhatItDoes(*program, executable_folder) : "");
  }
  return text.empty() ? "there are no trainers\n" : text;
}

}  // namespace mtrun::launcher
