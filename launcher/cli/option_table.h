// Every option of mtrun, one row each: name, default, help, bounds, shell completion and how it is read.
// Flags, PET_* variables, --config keys, --help, completion and Options all derive from this table. A new
// option is a row here and a member there.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "base/settings.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

/// Inputs of a reader.
struct OptionContext {
  const std::string& name;  // name of the option to read
  const Settings& settings;
  const EnvironmentMap& environment;
  const MachineFacts& machine;
  const std::vector<std::string>& rest;  // the program and its arguments
};

/// Reads an option that needs more than storing a value; the rows above it have been read.
using OptionReader = absl::Status (*)(const OptionContext&, Options*);
/// The reader of option `name` also reads this one.
struct PartOf {
  const char* name;
};
/// A torchrun option without effect here, because `why`.
struct NoEffect {
  const char* why;
};
/// A question to mtrun itself, which then runs no program.
struct Asks {
  Options::Act act;
};

/// How an option is read. Members are parsed by type: "0:1,12:2" as streams, "0,1" as local ranks, "a,b,,c"
/// as texts, numbers as seconds (unset: the member's own default).
using OptionTarget =
    std::variant<bool Options::*, std::string Options::*, std::optional<int> Options::*, Duration Options::*,
                 std::map<int, int> Options::*, std::set<int> Options::*, std::vector<std::string> Options::*,
                 OptionReader, PartOf, NoEffect, Asks>;

struct Option {
  SettingSpec spec;
  OptionTarget target;
  std::string completes = {};  // words that a shell offers besides spec.choices; kPath: file names
};
inline constexpr char kPath[] = "/";

/// Returns all rows in the order of reading and help, with their groups. Switches are off by default; the help
/// of a row without effect says so.
const std::vector<Option>& OptionRows();
/// Return the rows of questions (option_table_questions.cc): about a job, to a job, and to mtrun itself.
std::vector<Option> StatusQuestions();
std::vector<Option> ControlQuestions();
std::vector<Option> OwnQuestions();
/// Return the rows of option_table_rendezvous.cc: about the rendezvous; and about the server at MASTER_PORT and
/// the ways to this node with the rights of those that use them.
std::vector<Option> RendezvousRows();
std::vector<Option> ReachRows();
/// Returns the rows about other machines over ssh (option_table_ssh.cc).
std::vector<Option> SshRows();
/// Returns the rows' specs.
std::vector<SettingSpec> OptionTable();

}  // namespace mtrun::launcher
