#include "launcher/cli/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/folder_names.h"
#include "base/posix.h"
#include "base/settings.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "launcher/cli/machine.h"

namespace mtrun::launcher {
namespace {

namespace fs = std::filesystem;

constexpr char kTrainerExecutable[] = "trainer";  // shared by all trainers of mtrun

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool IsExecutable(const std::string& path) { return IsFile(path) && access(path.c_str(), X_OK) == 0; }

/// Returns whether the file is a Python program: a script whose first line names a Python, or a zip archive.
bool IsPythonProgram(const std::string& path) {
  constexpr size_t kFirstLine = 256;
  const absl::StatusOr<std::string> start = ReadFileStart(path, kFirstLine);
  if (!start.ok()) return false;
  if (absl::StartsWith(*start, "PK\x03\x04")) return true;
  return absl::StartsWith(*start, "#!") && absl::StrContains(start->substr(0, start->find('\n')), "python");
}

/// Returns whether the script leaves its Python to the environment, instead of naming one by its path.
bool TakesAnyPython(const std::string& path) {
  constexpr std::string_view kAny = "#!/usr/bin/env python";
  const absl::StatusOr<std::string> start = ReadFileStart(path, kAny.size());
  return start.ok() && *start == kAny;
}

/// Returns whether it is a folder that Python can run.
bool IsPythonFolder(const std::string& path) { return IsFile(path + "/__main__.py"); }

/// Replaces "${local_rank}", and "$local_rank" if the name ends there, as Python's string.Template does.
std::string WithLocalRank(const std::string& word, const std::string& rank) {
  constexpr std::string_view kName = "$local_rank";
  std::string filled = absl::StrReplaceAll(word, {{"${local_rank}", rank}});
  for (size_t at = filled.find(kName); at != std::string::npos; at = filled.find(kName, at + 1)) {
    const size_t end = at + kName.size();
    if (end < filled.size() && (absl::ascii_isalnum(filled[end]) || filled[end] == '_')) continue;
    filled.replace(at, kName.size(), rank);
  }
  return filled;
}

/// Returns the interpreter of the venv or conda environment that has mtrun in its bin folder; "" if there is
/// none, or if pipx or uv made it for mtrun alone.
std::string PythonBeside(const std::string& executable_folder) {
  const fs::path prefix = fs::path(executable_folder).parent_path();
  std::error_code ignored;
  const bool is_environment =
      fs::exists(prefix / "pyvenv.cfg", ignored) || fs::exists(prefix / "conda-meta", ignored);
  const bool is_tools =
      fs::exists(prefix / "pipx_metadata.json", ignored) || fs::exists(prefix / "uv-receipt.toml", ignored);
  if (!is_environment || is_tools) return "";
  for (const char* name : {"/python", "/python3"})
    if (std::string found = executable_folder + name; IsExecutable(found)) return found;
  return "";
}

struct ShellsPython {
  std::string file;
  const char* from = "";
};

/// Returns what an interactive user would get: the active environment's interpreter, or that of PATH, or "".
ShellsPython PythonOfShell(const EnvironmentMap& environment) {
  if (const std::string venv = ValueOr(environment, "VIRTUAL_ENV"); !venv.empty())
    if (std::string found = venv + "/bin/python"; IsExecutable(found))
      return {std::move(found), "VIRTUAL_ENV"};
  return {FindOnPath("python3", environment), "PATH"};
}

bool AreInOneFolder(const std::string& file, const std::string& other) {
  std::error_code ignored;
  return fs::equivalent(fs::path(file).parent_path(), fs::path(other).parent_path(), ignored);
}

absl::StatusOr<Program> WithPython(const EntryPoint& entry, const EnvironmentMap& environment,
                                   const std::string& executable_folder) {
  Program program;
  program.name = fs::path(entry.words.front()).filename();
  program.python = true;
  MT_ASSIGN_OR_RETURN(Python python, FindPython(environment, executable_folder));
  program.file = std::move(python.file);
  program.note = std::move(python.note);
  program.argv = {program.file, "-u"};
  if (entry.module) program.argv.push_back("-m");
  program.argv.insert(program.argv.end(), entry.words.begin(), entry.words.end());
  return program;
}

absl::StatusOr<Program> ResolveTrainer(const EntryPoint& entry, const EnvironmentMap& environment,
                                       const std::string& executable_folder) {
  const std::vector<std::string> folders = TrainerFolders(environment, executable_folder);
  for (const std::string& folder : folders) {
    const std::string path = absl::StrCat(folder, "/", entry.trainer);
    if (absl::StrContains(entry.trainer, '/') || !IsExecutable(path)) continue;
    if (TakesAnyPython(path)) {
      EntryPoint script{.words = {path}};
      script.words.insert(script.words.end(), entry.words.begin(), entry.words.end());
      return WithPython(script, environment, executable_folder);
    }
    Program program{.file = path, .argv = {path}, .name = entry.trainer};
    program.argv.insert(program.argv.end(), entry.words.begin(), entry.words.end());
    return program;
  }
  const std::vector<std::string> found = FindTrainers(environment, executable_folder);
  const std::string nearest = NearestName(entry.trainer, found);
  return absl::NotFoundError(absl::StrCat("--trainer ", entry.trainer, ": there is no such trainer (found: ",
                                          found.empty() ? "none" : absl::StrJoin(found, ", "), "; looked in ",
                                          absl::StrJoin(folders, ", "), ")",
                                          nearest.empty() ? "" : "; did you mean " + nearest + "?"));
}

/// Returns the folders of the pip package whose programs are in <prefix>/bin, sorted.
std::vector<fs::path> InPythonPackages(const fs::path& prefix) {
  std::vector<fs::path> found;
  for (const std::string& name : NamesIn(prefix / "lib")) {
    if (!absl::StartsWith(name, "python3")) continue;
    for (const char* packages : {"dist-packages/mtrun", "site-packages/mtrun"}) {
      std::error_code ignored;
      const fs::path folder = prefix / "lib" / name / packages;
      if (fs::is_directory(folder, ignored)) found.push_back(folder);
    }
  }
  return found;
}

}  // namespace

absl::StatusOr<Python> FindPython(const EnvironmentMap& environment, const std::string& executable_folder) {
  if (const std::string named = ValueOr(environment, "PYTHON_EXEC"); !named.empty()) {
    if (std::string file = FindOnPath(named, environment); !file.empty()) return Python{std::move(file)};
    return absl::NotFoundError(absl::StrCat("PYTHON_EXEC=", named, " is not an executable"));
  }
  const std::string own = PythonBeside(executable_folder);
  const ShellsPython shells = PythonOfShell(environment);
  Python python{own.empty() ? shells.file : own};
  if (python.file.empty())
    return absl::NotFoundError("no python3 on PATH to run the program with, and PYTHON_EXEC is not set");
  if (!own.empty() && !shells.file.empty() && !AreInOneFolder(own, shells.file))
    python.note = absl::StrCat("the program runs with ", own, ", beside mtrun, not ", shells.file, " (",
                               shells.from, "); PYTHON_EXEC=", shells.file, " would choose that one");
  return python;
}

std::string FindOnPath(const std::string& name, const EnvironmentMap& environment) {
  if (absl::StrContains(name, '/')) return IsExecutable(name) ? name : "";
  for (absl::string_view folder : absl::StrSplit(ValueOr(environment, "PATH"), ':')) {
    const std::string candidate = folder.empty() ? name : absl::StrCat(folder, "/", name);
    if (IsExecutable(candidate)) return candidate;
  }
  return "";
}

absl::StatusOr<Program> ResolveProgram(const EntryPoint& entry, const EnvironmentMap& environment,
                                       const std::string& executable_folder) {
  if (!entry.trainer.empty()) return ResolveTrainer(entry, environment, executable_folder);
  if (entry.module) return WithPython(entry, environment, executable_folder);
  const std::string& name = entry.words.front();
  if (!entry.no_python && (IsPythonFolder(name) || IsPythonProgram(name)))
    return WithPython(entry, environment, executable_folder);
  // Like torchrun, accepts any file; an executable name may also be found on PATH.
  const bool plain_file = IsFile(name) && !IsExecutable(name);
  const bool python_script =
      entry.run_path || (!entry.no_python && (absl::EndsWith(name, ".py") || plain_file));
  std::string file = python_script ? "" : FindOnPath(name, environment);
  if (file.empty() && !python_script && IsExecutable(name)) file = absl::StrCat("./", name);
  if (file.empty() && IsFile(name) && !entry.no_python)
    return WithPython(entry, environment, executable_folder);
  if (file.empty()) {
    std::error_code ignored;
    const bool there = fs::exists(name, ignored);
    return absl::NotFoundError(absl::StrCat(
        "program \"", name, "\" ", there ? "is not a file that can be executed" : "does not exist",
        " (looked in ", fs::current_path(ignored).string(),
        python_script || absl::StrContains(name, '/') ? "" : " and on PATH", ")"));
  }
  return Program{.file = file, .argv = entry.words, .name = fs::path(name).filename()};
}

std::string ProgramIdentity(const Program& program, const EntryPoint& entry) {
  constexpr std::string_view kElf =
      "\x7f"
      "ELF";  // builds may differ between nodes
  constexpr size_t kLargestScript = 1 << 20, kDigits = 12;
  if (!entry.trainer.empty() || entry.module) return program.name;
  const bool by_python = program.python && IsFile(entry.words.front());
  const std::string& script = by_python ? entry.words.front() : program.file;
  std::error_code unknown;
  if (fs::file_size(script, unknown) > kLargestScript || unknown) return program.name;
  const absl::StatusOr<std::string> text = ReadFile(script);
  if (!text.ok() || text->compare(0, kElf.size(), kElf) == 0) return program.name;
  return absl::StrCat(program.name, " ", Sha256Hex(*text).substr(0, kDigits));
}

std::vector<std::string> ArgumentsFor(const Program& program, int local_rank) {
  std::vector<std::string> argv;
  for (const std::string& word : program.argv) {
    argv.push_back(WithLocalRank(word, absl::StrCat(local_rank)));
  }
  return argv;
}

std::vector<std::string> OwnTrainerFolders(const std::string& executable_folder) {
  const fs::path prefix = fs::path(executable_folder).parent_path();
  std::vector<fs::path> installed = InPythonPackages(prefix);
  installed.insert(installed.begin(), prefix);
  std::vector<std::string> folders;
  std::error_code ignored;
  for (const fs::path& top : installed) {
    const fs::path folder = top / "libexec/mtrun/trainers";
    if (fs::is_directory(folder, ignored)) folders.push_back(folder);
  }
  return folders;
}

std::vector<std::string> TrainerFolders(const EnvironmentMap& environment,
                                        const std::string& executable_folder) {
  std::vector<std::string> folders =
      absl::StrSplit(ValueOr(environment, "MTRUN_TRAINER_PATH"), ':', absl::SkipEmpty());
  std::vector<std::string> own = OwnTrainerFolders(executable_folder);
  if (own.empty()) own.push_back(executable_folder);
  folders.insert(folders.end(), own.begin(), own.end());
  return folders;
}

bool ComesWithMtrun(const std::string& file, const std::string& executable_folder) {
  std::error_code none;
  const fs::path real = fs::canonical(file, none);
  if (none) return false;
  if (real.filename() == kTrainerExecutable) return true;
  const fs::path folder = real.parent_path(), started = folder.parent_path() / kTrainerExecutable;
  for (const std::string& own : OwnTrainerFolders(executable_folder)) {
    if (fs::canonical(own, none) != folder) continue;
    return fs::is_regular_file(started, none) && access(started.c_str(), X_OK) == 0;
  }
  return false;
}

std::vector<std::string> FindTrainers(const EnvironmentMap& environment,
                                      const std::string& executable_folder) {
  const std::set<std::string> not_trainers = {"mtrun",    "mtrdzv",          "mtdata",
                                              "mtreport", "allreduce_ranks", "rendezvous_agents"};
  std::set<std::string> names;
  for (const std::string& folder : TrainerFolders(environment, executable_folder)) {
    for (const std::string& name : NamesIn(folder))
      if (IsExecutable(absl::StrCat(folder, "/", name)) && !not_trainers.contains(name)) names.insert(name);
  }
  return {names.begin(), names.end()};
}

}  // namespace mtrun::launcher
