// What processes write that remain when a job is over: as under torchrun they live on, and must not die of
// of a pipe that nobody reads.
#pragma once

#include <vector>

#include "base/posix.h"

namespace mtrun::launcher {

struct OpenOutput {
  UniqueFd source, file;  // file: not valid for none
  int console = -1;       // a descriptor of this process, -1 for none
};

/// Forks a process that carries them until all have ended. Nothing else of this process stays open in it.
void CarryOn(std::vector<OpenOutput> outputs);

}  // namespace mtrun::launcher
