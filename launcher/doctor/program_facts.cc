#include "launcher/doctor/program_facts.h"

#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/cli/program.h"
#include "launcher/cli/program_answer.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);  // a first start reads hundreds of MB from the disk
// Looks for PyTorch without importing it, which takes seconds.
constexpr char kQuestion[] =
    "import platform, importlib.metadata as m\n"
    "try: torch = m.version('torch')\n"
    "except m.PackageNotFoundError: torch = ''\n"
    "print(platform.python_version(), torch)\n";

PythonFacts LookAtPython(const EnvironmentMap& environment, const std::string& executable_folder) {
  PythonFacts facts;
  const absl::StatusOr<Python> python = FindPython(environment, executable_folder);
  if (!python.ok()) {
    facts.error = std::string(python.status().message());
    return facts;
  }
  facts.file = python->file;
  facts.note = python->note;
  const absl::StatusOr<std::string> answer = AnswerOf({python->file, "-c", kQuestion}, kPatience);
  if (!answer.ok()) {
    facts.error = absl::StrCat(python->file, " does not work: ", answer.status().message());
    return facts;
  }
  const std::pair<std::string, std::string> words =
      absl::StrSplit(absl::StripAsciiWhitespace(*answer), absl::MaxSplits(' ', 1));
  std::tie(facts.version, facts.torch) = words;
  return facts;
}

TrainerFacts LookAtTrainers(const EnvironmentMap& environment, const std::string& executable_folder) {
  TrainerFacts facts{.names = FindTrainers(environment, executable_folder),
                     .folders = TrainerFolders(environment, executable_folder)};
  for (const std::string& name : facts.names) {
    const absl::StatusOr<Program> program = ResolveProgram({.trainer = name}, environment, executable_folder);
    if (!program.ok() || !ComesWithMtrun(program->file, executable_folder)) continue;
    facts.asked = name;
    const absl::StatusOr<std::string> answer = AnswerOf({program->file, "--version"}, kPatience);
    if (answer.ok()) facts.version = std::string(absl::StripAsciiWhitespace(*answer));
    if (!answer.ok()) facts.error = std::string(answer.status().message());
    break;
  }
  return facts;
}

}  // namespace

ProgramFacts LookAtPrograms(const EnvironmentMap& environment, const std::string& executable_folder) {
  return {LookAtPython(environment, executable_folder), LookAtTrainers(environment, executable_folder)};
}

}  // namespace mtrun::launcher
