// The rows of questions to mtrun, which then runs no program.
#include "launcher/cli/option_table.h"

namespace mtrun::launcher {
namespace {

using Kind = SettingSpec::Kind;

}  // namespace

std::vector<Option> StatusQuestions() {
  return {
      {{.name = "status",
        .help = "Print the jobs and nodes of the service at ENDPOINT, their generation and restarts.",
        .value = "ENDPOINT",
        .yields = true},
       Asks{Options::Act::kStatus}},
      {{.name = "top",
        .help = "Show the same on the whole terminal, updated each second; q ends it.",
        .value = "ENDPOINT",
        .yields = true},
       Asks{Options::Act::kTop}},
      {{.name = "json", .kind = Kind::kBool, .help = "With --status: print JSON.", .yields = true},
       &Options::json},
      {{.name = "watch",
        .kind = Kind::kBool,
        .help = "With --status: print it again at each change, until the job ends.",
        .yields = true},
       &Options::watch},
      {{.name = "logs",
        .kind = Kind::kInt,
        .help = "Print the last lines of that rank's output, from the node that runs it.",
        .value = "RANK ENDPOINT",
        .min = 0,
        .max = 1 << 30,
        .yields = true},
       Asks{Options::Act::kLogs}},
      {{.name = "follow",
        .kind = Kind::kBool,
        .help = "With --logs: print new output, too, until the job ends.",
        .yields = true},
       &Options::follow},
  };
}

std::vector<Option> ControlQuestions() {
  return {
      {{.name = "drain",
        .help = "Make the node leave its job after its step, as SIGTERM to its mtrun does.",
        .value = "NODE ENDPOINT",
        .yields = true},
       Asks{Options::Act::kDrain}},
      {{.name = "evict",
        .help = "Give up a node that was cut off or lost power; its job continues without it. If its workers "
                "still run, two generations may commit.",
        .value = "NODE ENDPOINT",
        .yields = true},
       Asks{Options::Act::kEvict}},
      {{.name = "stop", .help = "End the job on all its nodes.", .value = "ENDPOINT", .yields = true},
       Asks{Options::Act::kStop}},
      {{.name = "checkpoint",
        .kind = Kind::kBool,
        .help = "With --stop: let trainers save a checkpoint first, as when all nodes get SIGTERM at once.",
        .yields = true},
       &Options::checkpoint},
  };
}

std::vector<Option> OwnQuestions() {
  return {
      {{.name = "doctor",
        .kind = Kind::kBool,
        .help = "Check what a job needs of this machine, and the network to ENDPOINT. A line for each check "
                "has ok, warn or FAIL, and what to do. Exit with 1 if one fails.",
        .value = "[ENDPOINT]",
        .yields = true},
       Asks{Options::Act::kDoctor}},
      {{.name = "new_token",
        .kind = Kind::kBool,
        .help = "Print a new token for a cluster, for a file of mode 0600 or MTRUN_TOKEN."},
       Asks{Options::Act::kNewToken}},
      {{.name = "http_passwords",
        .kind = Kind::kBool,
        .help = "Print the passwords of the live page (--http), viewer's and operator's.",
        .yields = true},
       Asks{Options::Act::kPasswords}},
      {{.name = "help", .kind = Kind::kBool, .help = "Print this text.", .common = true, .letter = 'h'},
       Asks{Options::Act::kHelp}},
      {{.name = "version", .kind = Kind::kBool, .help = "Print the version.", .yields = true},
       Asks{Options::Act::kVersion}},
      {{.name = "print_completion",
        .help = "Print a completion script for the shell.",
        .choices = {"bash", "fish", "tcsh", "zsh"}},
       Asks{Options::Act::kCompletion}},
  };
}

}  // namespace mtrun::launcher
