#include "launcher/trainer_check.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/posix.h"
#include "launcher/cli/option_table.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSummaryBytes = 4096;

std::vector<char*> Pointers(std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  for (std::string& word : argv) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// All that come with mtrun are links to one executable, which understands --check.
bool ComesWithMtrun(const Program& program) {
  std::error_code none;
  return fs::canonical(program.file, none).filename() == "trainer";
}

/// Its exit status, -1 where it did not end by itself.
int Run(const std::string& file, std::vector<std::string> argv, const posix_spawn_file_actions_t* actions) {
  pid_t pid = 0;
  if (posix_spawn(&pid, file.c_str(), actions, nullptr, Pointers(argv).data(), environ) != 0) return -1;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// The first line that the trainer prints of itself, "" for none.
std::string Summary(const std::string& file) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  std::vector<std::string> argv = {file, "--help"};
  pid_t pid = 0;
  const bool started =
      posix_spawn(&pid, file.c_str(), &actions, nullptr, Pointers(argv).data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  write_end.Reset();
  if (!started) return "";
  std::string text;
  char piece[kSummaryBytes];
  // To the end: the trainer would complain of a reader that goes before.
  for (ssize_t got = 0; (got = read(read_end.get(), piece, sizeof piece)) > 0;) {
    if (text.size() < kSummaryBytes) text.append(piece, static_cast<size_t>(got));
  }
  read_end.Reset();
  waitpid(pid, nullptr, 0);
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::vector<std::string> MisplacedFlags(const std::vector<std::string>& words) {
  const std::set<std::string> of_both = {"config", "help", "version"};
  std::set<std::string> names;
  for (const Option& option : OptionRows()) names.insert(option.spec.name);
  std::vector<std::string> misplaced;
  for (const std::string& word : words) {
    if (word.size() < 3 || !absl::StartsWith(word, "--")) continue;
    const std::string name = absl::StrReplaceAll(word.substr(2, word.find('=') - 2), {{"-", "_"}});
    if (names.contains(name) && !of_both.contains(name)) misplaced.push_back("--" + name);
  }
  return misplaced;
}

bool AsksTrainer(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word == "--help" || word == "--version"; });
}

void BecomeTrainer(const Program& program) {
  std::vector<std::string> argv = program.argv;
  execv(program.file.c_str(), Pointers(argv).data());
}

int CheckTrainer(const Options& options, const Program& program) {
  if (!ComesWithMtrun(program)) return 0;
  const bool alone = options.job.max_nodes == 1;
  std::vector<std::string> argv = program.argv;
  argv.insert(argv.begin() + 1, alone ? "--check" : "--check_settings");
  setenv("MTRUN_CONFIGURED_WORLD", absl::StrCat(options.job.max_nodes * options.workers).c_str(), 1);
  const int status = Run(program.file, argv, nullptr);
  // Anything else comes again in the workers, where it is supervised.
  if (status != rendezvous::kWrongSettingsStatus) {
    setenv("MTRUN_CHECKED", "1", 1);
    return 0;
  }
  const std::vector<std::string> misplaced = MisplacedFlags(options.entry.words);
  if (!misplaced.empty()) {
    std::cerr << "mtrun: " << absl::StrJoin(misplaced, ", ")
              << (misplaced.size() == 1 ? " is a flag" : " are flags") << " of mtrun: put "
              << (misplaced.size() == 1 ? "it" : "them") << " in front of --trainer " << program.name
              << std::endl;
  }
  return status;
}

std::string ListTrainers(const EnvironmentMap& environment, const std::string& executable_folder) {
  std::string text;
  for (const std::string& name : FindTrainers(environment, executable_folder)) {
    const absl::StatusOr<Program> program = ResolveProgram({.trainer = name}, environment, executable_folder);
    const bool ours = program.ok() && ComesWithMtrun(*program);
    absl::StrAppendFormat(&text, "%-10s  %s\n", name,
                          ours           ? Summary(program->file)
                          : program.ok() ? program->file
                                         : "");
  }
  return text.empty() ? "there are no trainers\n" : text;
}

}  // namespace mtrun::launcher
