// How the entry point is run: which interpreter, which trainer, which file. A program that cannot be run is
// an error here, before any worker starts.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

struct Program {
  std::string file;               // what exec gets; found and executable
  std::vector<std::string> argv;  // argv[0] included; may hold ${local_rank}
  std::string name;               // for messages: "cnnA", "train.py"
  bool python = false;            // argv is an interpreter, "-u" and what it runs
  bool operator==(const Program&) const = default;
};

/// `.py` files, files without the right to execute, scripts whose first line names a Python, zip archives and
/// folders with __main__.py, and modules run with $PYTHON_EXEC, else
/// $VIRTUAL_ENV/bin/python, else python3 of PATH, with -u; other programs are executed themselves. kNotFound
/// says what was looked for and where.
absl::StatusOr<Program> ResolveProgram(const EntryPoint& entry, const EnvironmentMap& environment,
                                       const std::string& executable_folder);

/// The executable that a shell would take for `name`, "" for none.
std::string FindOnPath(const std::string& name, const EnvironmentMap& environment);

/// Tells programs apart that meet under one job id: the name, of a script also what is in it ("train.py
/// 3f2a90bc11d4"). Neither arguments nor folders.
std::string ProgramIdentity(const Program& program, const EntryPoint& entry);

/// Replaces ${local_rank} and $local_rank in every argument.
std::vector<std::string> ArgumentsFor(const Program& program, int local_rank);

/// Where trainers were installed with mtrun: ../libexec/mtrun/trainers beside the executable, that of the
/// package where pip has installed both. None in a build tree.
std::vector<std::string> OwnTrainerFolders(const std::string& executable_folder);
/// Folders that may hold trainers, in order: MTRUN_TRAINER_PATH, then OwnTrainerFolders or, without any, the
/// executable's own folder.
std::vector<std::string> TrainerFolders(const EnvironmentMap& environment,
                                        const std::string& executable_folder);
/// Names of the trainers that are there, sorted.
std::vector<std::string> FindTrainers(const EnvironmentMap& environment,
                                      const std::string& executable_folder);

}  // namespace mtrun::launcher
