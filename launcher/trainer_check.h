// What mtrun asks one of its own trainers before it starts any worker: for help, and whether its settings are
// right.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/cli/program.h"

namespace mtrun::launcher {

/// Of the trainer's arguments those that are flags of mtrun, given behind the trainer's name:
/// "--nproc_per_node".
std::vector<std::string> MisplacedFlags(const std::vector<std::string>& words);

/// Whether the arguments ask for help or the version alone; then the trainer answers, once.
bool AsksTrainer(const std::vector<std::string>& words);

/// Whether a trainer's `file` came with the mtrun in `executable_folder` and understands --check. In a build
/// tree all are links to one executable; where they are installed, copies of a script that starts it.
bool ComesWithMtrun(const std::string& file, const std::string& executable_folder);

/// Becomes the trainer. Returns where it cannot be started.
void BecomeTrainer(const Program& program);

/// Runs the trainer with --check, or --check_settings where other nodes take part: data may be wrong on one
/// of them alone, which the others must hear of. 0: all is well, or this trainer does not come with mtrun and
/// cannot be asked; else its exit status: it has said what is wrong, and so has this.
int CheckTrainer(const Options& options, const Program& program, const std::string& executable_folder);

/// A line for each trainer: its name and what it does; where it is, of one of others.
std::string ListTrainers(const EnvironmentMap& environment, const std::string& executable_folder);

}  // namespace mtrun::launcher
