// Queries to mtrun's own trainers before any worker starts: for help, and to check their settings.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/cli/program.h"

namespace mtrun::launcher {

/// Returns the flags of mtrun that were misplaced after the trainer's name, as "--nproc_per_node".
std::vector<std::string> MisplacedFlags(const std::vector<std::string>& words);

/// Returns whether the arguments only ask for help or the version; the trainer then answers once.
bool AsksTrainer(const std::vector<std::string>& words);

/// Returns whether the arguments of one of mtrun's own trainers ask for what one process does instead of
/// training: --predict, --export, --check, --preview, --sample.
bool AsksOneProcess(const std::vector<std::string>& words);

/// Returns whether they ask for --evaluate, which the workers of a job do together.
bool AsksEvaluation(const std::vector<std::string>& words);

/// Executes the trainer in this process. Returns only if it cannot be started.
void BecomeTrainer(const Program& program);

/// Does the same for AsksOneProcess. The trainer takes the number of workers from `options`, and prints what
/// --check finds.
void BecomeOneProcess(const Options& options, const Program& program);

/// Runs the trainer with --check, or with --check_settings if the job has other nodes: data may be wrong on a
/// single node, which the others must learn. Returns 0 if all is well, otherwise its exit status, after error
/// messages. REQUIRES: ComesWithMtrun (launcher/cli/program.h).
int CheckTrainer(const Options& options, const Program& program);

inline constexpr size_t kTrainerColumns = 12;  // before the description
/// Returns one line per trainer: its name and its description, or its path if it is not mtrun's own.
std::string ListTrainers(const EnvironmentMap& environment, const std::string& executable_folder);

}  // namespace mtrun::launcher
