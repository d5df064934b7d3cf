// The rows of questions to mtrun, which then runs nothing.
#include "launcher/cli/option_table.h"

namespace mtrun::launcher {
namespace {

using Kind = SettingSpec::Kind;

constexpr char kQuestions[] = "Questions to mtrun";

}  // namespace

std::vector<Option> StatusQuestions() {
  return {
      {{.name = "status",
        .help = "ENDPOINT: prints which jobs and nodes are there, their generation and restarts.",
        .group = kQuestions,
        .yields = true},
       Asks{Options::Act::kStatus}},
      {{.name = "top",
        .help = "ENDPOINT: the same on the whole terminal, renewed each second; q ends it.",
        .group = kQuestions,
        .yields = true},
       Asks{Options::Act::kTop}},
      {{.name = "json",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "With --status: as JSON.",
        .group = kQuestions,
        .yields = true},
       &Options::json},
      {{.name = "watch",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "With --status: prints it again whenever it changes, until the job ends.",
        .group = kQuestions,
        .yields = true},
       &Options::watch},
      {{.name = "logs",
        .kind = Kind::kInt,
        .help = "RANK ENDPOINT: prints the last lines of that rank's output, from the node that runs it.",
        .group = kQuestions,
        .min = 0,
        .max = 1 << 30,
        .yields = true},
       Asks{Options::Act::kLogs}},
      {{.name = "follow",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "With --logs: also what comes then, until the job ends.",
        .group = kQuestions,
        .yields = true},
       &Options::follow},
  };
}

std::vector<Option> ControlQuestions() {
  return {
      {{.name = "drain",
        .help = "NODE ENDPOINT: that node leaves its job after its step, as on SIGTERM to its mtrun.",
        .group = kQuestions,
        .yields = true},
       Asks{Options::Act::kDrain}},
      {{.name = "evict",
        .help =
            "NODE ENDPOINT: a node that was cut off or lost power never comes back; its job goes on without "
            "it. If its workers still run, two generations may commit.",
        .group = kQuestions,
        .yields = true},
       Asks{Options::Act::kEvict}},
      {{.name = "stop",
        .help = "ENDPOINT: ends the job on all its nodes.",
        .group = kQuestions,
        .yields = true},
       Asks{Options::Act::kStop}},
      {{.name = "checkpoint",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "With --stop: trainers save first, as when SIGTERM comes to all nodes at once.",
        .group = kQuestions,
        .yields = true},
       &Options::checkpoint},
  };
}

std::vector<Option> OwnQuestions() {
  return {
      {{.name = "doctor",
        .kind = Kind::kBool,
        .default_text = "false",
        .help =
            "[ENDPOINT]: a line for each thing that a job needs of this machine, and of the way to ENDPOINT: "
            "ok, warn or FAIL, and what to do; exits with 1 if something fails.",
        .group = kQuestions,
        .yields = true},
       Asks{Options::Act::kDoctor}},
      {{.name = "new_token",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "Prints a new token for a cluster, for a file of mode 0600 or MTRUN_TOKEN.",
        .group = kQuestions},
       Asks{Options::Act::kNewToken}},
      {{.name = "http_passwords",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "Prints the passwords of the live page (--http), viewer's and operator's.",
        .group = kQuestions,
        .yields = true},
       Asks{Options::Act::kPasswords}},
      {{.name = "help",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "Prints this.",
        .group = kQuestions,
        .letter = 'h'},
       Asks{Options::Act::kHelp}},
      {{.name = "version",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "Prints the version.",
        .group = kQuestions,
        .yields = true},
       Asks{Options::Act::kVersion}},
      {{.name = "print_completion",
        .help = "Prints the shell's completion: mtrun --print_completion bash.",
        .group = kQuestions,
        .choices = {"bash", "zsh"}},
       Asks{Options::Act::kCompletion}},
  };
}

}  // namespace mtrun::launcher
