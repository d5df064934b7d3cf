// Every option of mtrun, a row each: name, default, help, bounds, what a shell completes, and how it is read.
// The one list behind flags, PET_* variables, --config keys, --help, completion and Options: a new option is
// a row here and a member there.
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

/// What a reader may look at.
struct OptionContext {
  const std::string& name;  // of the option that is read
  const Settings& settings;
  const EnvironmentMap& environment;
  const MachineFacts& machine;
  const std::vector<std::string>& rest;  // the program and its arguments
};

/// Reads an option that is more than a value; rows above it have been read.
using OptionReader = absl::Status (*)(const OptionContext&, Options*);
/// The reader of option `name` reads this one too.
struct PartOf {
  const char* name;
};
/// torchrun's, means nothing here: `why`.
struct NoEffect {
  const char* why;
};
/// A question to mtrun itself, which then runs nothing.
struct Asks {
  Options::Act act;
};

/// How an option is read. The members by their types: "0:1,12:2" as streams, "0,1" as local ranks, "a,b,,c"
/// as texts, numbers as seconds (unset: the member's own default).
using OptionTarget =
    std::variant<bool Options::*, std::string Options::*, std::optional<int> Options::*, Duration Options::*,
                 std::map<int, int> Options::*, std::set<int> Options::*, std::vector<std::string> Options::*,
                 OptionReader, PartOf, NoEffect, Asks>;

struct Option {
  SettingSpec spec;
  OptionTarget target;
  std::string completes = {};  // words that a shell offers beside spec.choices; kPath: file names
};
inline constexpr char kPath[] = "/";

/// In the order in which they are read and shown. The help of a row without effect says so.
const std::vector<Option>& OptionRows();
/// Their parts that are questions (option_table_questions.cc): what a job does, what it is to do, mtrun
/// itself.
std::vector<Option> StatusQuestions();
std::vector<Option> ControlQuestions();
std::vector<Option> OwnQuestions();
/// About other machines over ssh (option_table_ssh.cc).
std::vector<Option> SshRows();
/// The rows' specs.
std::vector<SettingSpec> OptionTable();

}  // namespace mtrun::launcher
