// What the processes of a node's workers use, from /proc. Blocking: for a thread that may wait.
#pragma once

#include <string>

#include "rendezvous/node_use.h"

namespace mtrun::launcher {

/// Sets the machine's part of `use`, and processor time and memory of each worker in it by its pid, with
/// everything that descends from it. What `root`/proc ("" in life) does not show stays as it is.
void ReadUse(const std::string& root, rendezvous::NodeUse* use);

}  // namespace mtrun::launcher
