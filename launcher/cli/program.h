// Resolves the entry point: interpreter, trainer or file. Reports errors before any worker starts.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

struct Program {
  std::string file;               // path for exec; an existing executable
  std::vector<std::string> argv;  // argv[0] included; may hold ${local_rank}
  std::string name;               // for messages: "cnnA", "train.py"
  bool python = false;            // argv is an interpreter, "-u" and the program
  std::string note = {};          // for the log if another interpreter could be expected
  bool operator==(const Program&) const = default;
};

struct Python {
  std::string file;       // path of an executable
  std::string note = {};  // for the log if another interpreter could be expected
  bool operator==(const Python&) const = default;
};

/// Returns the interpreter of Python programs: $PYTHON_EXEC, or that of the venv or conda environment that
/// has mtrun in its bin folder, or $VIRTUAL_ENV/bin/python, or python3 of PATH.
absl::StatusOr<Python> FindPython(const EnvironmentMap& environment, const std::string& executable_folder);

/// Resolves the entry point. Python runs `.py` files, files without execute permission, scripts whose first
/// line names a Python, zip archives and folders with __main__.py, and modules, with FindPython's interpreter
/// and -u. Other programs are executed directly. kNotFound lists what was looked for and where.
absl::StatusOr<Program> ResolveProgram(const EntryPoint& entry, const EnvironmentMap& environment,
                                       const std::string& executable_folder);

/// Returns the executable that a shell would choose for `name`; "" if there is none.
std::string FindOnPath(const std::string& name, const EnvironmentMap& environment);

/// Returns a text that distinguishes programs under the same job id: the name, for a script also a hash of
/// its content ("train.py 3f2a90bc11d4"). Ignores arguments and folders.
std::string ProgramIdentity(const Program& program, const EntryPoint& entry);

/// Replaces ${local_rank} and $local_rank in every argument.
std::vector<std::string> ArgumentsFor(const Program& program, int local_rank);

/// Returns the folders of trainers installed with mtrun: ../libexec/mtrun/trainers next to the executable, or
/// in the package if pip has installed both. Empty in a build tree.
std::vector<std::string> OwnTrainerFolders(const std::string& executable_folder);
/// Returns the folders that may hold trainers, in order: MTRUN_TRAINER_PATH, then OwnTrainerFolders or, if
/// that is empty, the executable's own folder.
std::vector<std::string> TrainerFolders(const EnvironmentMap& environment,
                                        const std::string& executable_folder);
/// Returns whether a trainer's `file` belongs to the mtrun in `executable_folder` and supports --check. Build
/// trees have links to one executable; installations have copies of a script that starts it.
bool ComesWithMtrun(const std::string& file, const std::string& executable_folder);
/// Returns the names of the trainers in these folders, sorted.
std::vector<std::string> FindTrainers(const EnvironmentMap& environment,
                                      const std::string& executable_folder);

}  // namespace mtrun::launcher
