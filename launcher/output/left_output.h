// Forwards output of processes that outlive the job, as under torchrun: a closed pipe must not kill them.
#pragma once

#include <vector>

#include "base/posix.h"

namespace mtrun::launcher {

struct OpenOutput {
  UniqueFd source, file;  // file: invalid if there is none
  int console = -1;       // a descriptor of this process, -1 for none
};

/// Forks a process that forwards the outputs until all have ended. It closes everything else of this process.
void CarryOn(std::vector<OpenOutput> outputs);

}  // namespace mtrun::launcher
